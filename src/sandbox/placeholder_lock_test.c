/* placeholder_lock_test: the locks count every user of a placeholder, and exactly one user is the last. */
#include "unit.h"

#include "sandbox/placeholder_lock.h"

#include "base/tree_rig.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define ROUNDS 2000

static struct placeholder_locks locks_of(struct tree_rig *rig)
{
        struct placeholder_locks locks;
        struct err err = ERR_INIT;
        (void)mkdir(at(rig, "state"), 0700);
        if (placeholder_locks_open(at(rig, "state"), &locks, &err) < 0)
                fail_msg("%s", err.text);
        return locks;
}

static int user_of(const struct placeholder_locks *locks)
{
        int fd = placeholder_lock_open(locks->path);
        ok(fd >= 0);
        return fd;
}

/* ---- locks ---- */

TEST(the_last_user_is_alone_and_nobody_before)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct placeholder_locks locks = locks_of(&rig);
        int one = user_of(&locks), two = user_of(&locks), three = user_of(&locks);
        ok(placeholder_lock_share(one, 7) == 0 && placeholder_lock_share(two, 7) == 0 &&
           placeholder_lock_share(three, 7) == 0);
        eq_int(placeholder_lock_alone(two, 7), -EAGAIN);
        eq_int(placeholder_lock_alone(one, 7), -EAGAIN);
        eq_int(placeholder_lock_alone(three, 7), 0);
        eq_int(placeholder_lock_alone(one, 7), -EAGAIN); /* `three` is removing the placeholder */
        placeholder_lock_drop(three, 7);
        eq_int(placeholder_lock_alone(one, 7), 0);
        close(one);
        close(two);
        close(three);
}

TEST(one_byte_says_nothing_of_another)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct placeholder_locks locks = locks_of(&rig);
        _close_ int one = user_of(&locks);
        _close_ int two = user_of(&locks);
        ok(placeholder_lock_share(one, 7) == 0 && placeholder_lock_share(two, 8) == 0);
        eq_int(placeholder_lock_alone(one, 7), 0);
        eq_int(placeholder_lock_alone(two, 8), 0);
}

TEST(a_user_that_is_killed_counts_no_more)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct placeholder_locks locks = locks_of(&rig);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                int fd = placeholder_lock_open(locks.path);
                if (placeholder_lock_share(fd, 7) == 0)
                        (void)raise(SIGKILL);
                _exit(1);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFSIGNALED(status));
        _close_ int fd = user_of(&locks);
        eq_int(placeholder_lock_alone(fd, 7), 0);
}

struct pair {
        struct placeholder_locks locks;
        pthread_barrier_t barrier;
        int results[2];
};

struct side {
        struct pair *pair;
        int number;
};

static void *end_at_once(void *arg)
{
        struct side *s = arg;
        struct pair *p = s->pair;
        int fd = placeholder_lock_open(p->locks.path);
        for (int n = 0; n < ROUNDS; n++) {
                int r = placeholder_lock_share(fd, 7);
                pthread_barrier_wait(&p->barrier);
                p->results[s->number] = r < 0 ? r : placeholder_lock_alone(fd, 7);
                if (pthread_barrier_wait(&p->barrier) != 0 && p->results[0] + p->results[1] != -EAGAIN)
                        fail_msg("%d and %d in round %d", p->results[0], p->results[1], n);
                placeholder_lock_drop(fd, 7);
                pthread_barrier_wait(&p->barrier);
        }
        close(fd);
        return NULL;
}

TEST(of_two_users_that_end_at_once_exactly_one_is_the_last)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct pair p = { .locks = locks_of(&rig) };
        struct side sides[2] = { { &p, 0 }, { &p, 1 } };
        pthread_barrier_init(&p.barrier, NULL, 2);
        pthread_t thread;
        eq_int(pthread_create(&thread, NULL, end_at_once, &sides[1]), 0);
        (void)end_at_once(&sides[0]);
        eq_int(pthread_join(thread, NULL), 0);
        pthread_barrier_destroy(&p.barrier);
}

struct remover {
        pthread_barrier_t ready;
        int fd;
};

static void *remove_slowly(void *arg)
{
        struct remover *r = arg;
        pthread_barrier_wait(&r->ready);
        (void)poll(NULL, 0, 20);
        placeholder_lock_drop(r->fd, 7);
        return NULL;
}

TEST(a_new_user_waits_for_a_removal_but_not_for_ever)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct placeholder_locks locks = locks_of(&rig);
        struct remover r = { .fd = user_of(&locks) };
        _close_ int fd = user_of(&locks);
        eq_int(placeholder_lock_alone(r.fd, 7), 0);
        eq_int(placeholder_lock_share(fd, 7), -EAGAIN);
        pthread_barrier_init(&r.ready, NULL, 2);
        pthread_t thread;
        eq_int(pthread_create(&thread, NULL, remove_slowly, &r), 0);
        pthread_barrier_wait(&r.ready);
        /* On a busy machine the remover may need longer than one call waits; without a wait even all calls together are too
         * quick. */
        int shared = -EAGAIN;
        for (int i = 0; i < 20 && shared == -EAGAIN; i++)
                shared = placeholder_lock_share(fd, 7);
        eq_int(shared, 0);
        eq_int(placeholder_lock_alone(r.fd, 7), -EAGAIN);
        eq_int(pthread_join(thread, NULL), 0);
        pthread_barrier_destroy(&r.ready);
        close(r.fd);
}

/* ---- the byte of a placeholder ---- */

TEST(every_place_has_a_byte_of_its_own)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct placeholder_locks locks = locks_of(&rig), other = locks;
        uint64_t git = placeholder_lock_byte(&locks, 1, 2, S(".git"));
        eq_u64(placeholder_lock_byte(&locks, 1, 2, S(".git")), git);
        ok(git < UINT64_C(1) << 62);
        ok(placeholder_lock_byte(&locks, 2, 2, S(".git")) != git);
        ok(placeholder_lock_byte(&locks, 1, 3, S(".git")) != git);
        ok(placeholder_lock_byte(&locks, 2, 1, S(".git")) != git);
        ok(placeholder_lock_byte(&locks, 1, 2, S(".gi")) != git);
        ok(placeholder_lock_byte(&locks, 1, 2, S(".giu")) != git);
        other.key[0] ^= 1;
        ok(placeholder_lock_byte(&other, 1, 2, S(".git")) != git); /* another key gives other bytes */
        char name[2 * NAME_MAX];
        memset(name, 'x', sizeof(name));
        ok(placeholder_lock_byte(&locks, 1, 2, slice_from(name, sizeof(name))) != git);
}

/* ---- the lock file ---- */

TEST(every_process_that_opens_the_file_has_the_same_key)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct placeholder_locks one = locks_of(&rig), two = locks_of(&rig);
        struct stat st;
        ok(memcmp(one.key, two.key, sizeof(one.key)) == 0 && (one.key[0] | one.key[1]) != 0);
        eq_int(stat(one.path, &st), 0);
        eq_int(st.st_mode & 07777, 0600);
        ok(placeholder_locks_are_current(&one));
}

TEST(a_file_that_was_removed_or_emptied_is_noticed_and_made_again)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct placeholder_locks one = locks_of(&rig);
        eq_int(truncate(one.path, 3), 0);
        struct placeholder_locks two = locks_of(&rig);
        ok(memcmp(one.key, two.key, sizeof(one.key)) != 0);
        eq_u64(one.ino, two.ino);
        eq_int(rename(one.path, at(&rig, "moved")), 0);
        ok(!placeholder_locks_are_current(&two));
        struct placeholder_locks three = locks_of(&rig);
        ok(three.ino != two.ino && placeholder_locks_are_current(&three));
}

static int refusal(struct tree_rig *rig)
{
        struct placeholder_locks locks;
        struct err err = ERR_INIT;
        int r = placeholder_locks_open(at(rig, "state"), &locks, &err);
        ok(r == 0 || strstr(err.text, PLACEHOLDER_LOCK_FILE));
        return r;
}

TEST(what_is_no_file_of_ours_alone_is_not_used)
{
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "state");
        const char *path = at(&rig, "state/" PLACEHOLDER_LOCK_FILE);
        put_link(&rig, "../target", "state/" PLACEHOLDER_LOCK_FILE);
        eq_int(refusal(&rig), -ELOOP);
        eq_int(unlink(path), 0);
        eq_int(mkfifo(path, 0600), 0);
        eq_int(refusal(&rig), -EPERM);
        eq_int(unlink(path), 0);
        put_directory(&rig, "state/" PLACEHOLDER_LOCK_FILE);
        eq_int(refusal(&rig), -EISDIR);
        eq_int(rmdir(path), 0);
        put_file(&rig, "state/" PLACEHOLDER_LOCK_FILE);
        eq_int(chmod(path, 0644), 0);
        eq_int(refusal(&rig), -EPERM); /* other users could hold locks in it */
        eq_int(chmod(path, 0600), 0);
        eq_int(refusal(&rig), 0);
        struct placeholder_locks locks;
        struct err err = ERR_INIT;
        eq_int(placeholder_locks_open(at(&rig, "none"), &locks, &err), -ENOENT);
}

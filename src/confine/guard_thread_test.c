/* guard_thread_test: the thread of the guard kills the processes of a sandbox whose mask is gone, and no other process,
 * whatever numbers the image holds. */
#include "unit.h"

#include "base/tree_rig.h"
#include "confine/guard.h"
#include "sandbox/image.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define WAIT_MS 10000
#define KILLED 100 /* plus the signal: the exit status of a keeper of these tests whose child was killed */

/* One sandbox with a mask on "no", and the processes that its image names. */
struct struck {
        struct tree_rig rig;
        struct plan_op op;
        struct plan plan;
        struct image *image;
        struct guard *guard;
        struct guard_hold *hold;
        int told;
};

static pid_t sleeper_start(void)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                alarm(60);
                for (;;)
                        pause();
        }
        return pid;
}

/* Starts a process with a child. SIGTERM does not end the process; its exit status tells how the child ended. */
static pid_t keeper_start(pid_t *ret_child)
{
        int ends[2];
        eq_int(pipe2(ends, O_CLOEXEC), 0);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                int status = 0;
                (void)signal(SIGTERM, SIG_IGN);
                pid_t child = sleeper_start();
                if (write(ends[1], &child, sizeof(child)) != sizeof(child) ||
                    waitpid(child, &status, 0) != child)
                        _exit(1);
                _exit(WIFSIGNALED(status) ? KILLED + WTERMSIG(status) : 1);
        }
        ok(read(ends[0], ret_child, sizeof(*ret_child)) == sizeof(*ret_child));
        close(ends[0]);
        close(ends[1]);
        return pid;
}

static void end(pid_t pid)
{
        eq_int(kill(pid, SIGKILL), 0);
        eq_int(waitpid(pid, NULL, 0), pid);
}

static bool is_alive(pid_t pid)
{
        return waitpid(pid, NULL, WNOHANG) == 0;
}

static void begin(struct struck *s)
{
        static const struct seccomp_filter filter;
        const struct image_extra extra = { .filter = &filter };
        struct err err = ERR_INIT;
        *s = (struct struck){ .rig = tree_rig_new() };
        put_directory(&s->rig, "no");
        s->op = (struct plan_op){ .kind = PLAN_HIDE,
                                  .is_guarded = true,
                                  .path = slice_from_str(at(&s->rig, "no")) };
        s->plan = (struct plan){ .ops = &s->op, .op_count = 1 };
        _close_ int fd = image_make(&s->plan, &extra);
        ok(fd >= 0);
        s->image = image_map(fd);
        ok(s->image != NULL);
        eq_int(guard_new(&s->guard, &err), 0);
}

static void watch(struct struck *s, bool has_thread)
{
        struct err err = ERR_INIT;
        if (has_thread)
                eq_int(guard_start(s->guard), 0);
        eq_int(guard_hold(s->guard, &s->plan, s->image, &s->hold, &err), 0);
        guard_set_owner(s->guard, s->hold, s);
}

static bool is_broken(const struct struck *s)
{
        return __atomic_load_n(&s->image->is_broken, __ATOMIC_SEQ_CST);
}

static void on_told(void *owner, enum guard_event event)
{
        struct struck *s = owner;
        s->told += event == GUARD_BROKEN;
}

/* Moves the mask away and waits until the guard has an event to report: it kills before that. */
static void break_mask(struct struck *s)
{
        struct pollfd p = { .fd = guard_fd(s->guard), .events = POLLIN };
        move_to(&s->rig, "no", "gone");
        eq_int(poll(&p, 1, WAIT_MS), 1);
}

static void finish(struct struck *s)
{
        guard_read(s->guard, on_told);
        eq_int(s->told, 1);
        struct pollfd p = { .fd = guard_fd(s->guard), .events = POLLIN };
        eq_int(poll(&p, 1, 0), 0);
        s->hold = guard_let_go(s->guard, s->hold);
        (void)guard_free(s->guard);
        image_unmap(s->image);
        tree_rig_release(&s->rig);
}

static int await_keeper(pid_t keeper)
{
        int status = 0;
        eq_int(waitpid(keeper, &status, 0), keeper);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(the_thread_kills_who_is_in_a_sandbox_whose_mask_is_gone)
{
        skip_in_valgrind("does not know pidfd_send_signal");
        struct struck s;
        pid_t init, keeper = keeper_start(&init);
        begin(&s);
        s.image->line[IMAGE_SPAWNER] = getpid();
        s.image->line[IMAGE_KEEPER] = keeper;
        s.image->line[IMAGE_INIT] = init;
        watch(&s, true);
        break_mask(&s);
        eq_int(await_keeper(keeper), KILLED + SIGKILL); /* guard_read was not called yet */
        ok(is_broken(&s));
        finish(&s);
}

TEST(without_the_thread_it_is_done_when_the_guard_is_read)
{
        skip_in_valgrind("does not know pidfd_send_signal");
        struct struck s;
        pid_t init, keeper = keeper_start(&init);
        begin(&s);
        s.image->line[IMAGE_SPAWNER] = getpid();
        s.image->line[IMAGE_KEEPER] = keeper;
        s.image->line[IMAGE_INIT] = init;
        watch(&s, false);
        break_mask(&s);
        ok(!is_broken(&s));
        finish(&s);
        eq_int(await_keeper(keeper), KILLED + SIGKILL);
}

/* The keeper has ended, and the pids of the keeper and of the init belong to other processes now. */
TEST(a_process_with_another_parent_than_recorded_is_not_killed)
{
        skip_in_valgrind("does not know pidfd_send_signal");
        struct struck s;
        pid_t child, other = keeper_start(&child), stranger = sleeper_start();
        begin(&s);
        s.image->line[IMAGE_SPAWNER] = other; /* as if the keeper were its child */
        s.image->line[IMAGE_KEEPER] = stranger;
        s.image->line[IMAGE_INIT] = other;
        s.image->line[IMAGE_BELOW_INIT] = stranger;
        watch(&s, true);
        break_mask(&s);
        finish(&s);
        ok(is_alive(stranger));
        ok(is_alive(other));
        end(stranger);
        eq_int(kill(child, SIGKILL), 0);
        eq_int(await_keeper(other), KILLED + SIGKILL);
}

TEST(numbers_that_are_none_kill_nobody)
{
        static const pid_t bad[] = { 0, -1, 1, INT32_MAX };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct struck s;
                begin(&s);
                for (size_t n = 0; n < IMAGE_LINE; n++)
                        s.image->line[n] = bad[i];
                watch(&s, true);
                break_mask(&s);
                finish(&s); /* this process was not killed */
        }
}

TEST(a_command_that_is_over_is_not_killed)
{
        skip_in_valgrind("does not know pidfd_send_signal");
        struct struck s;
        pid_t init, keeper = keeper_start(&init);
        begin(&s);
        s.image->line[IMAGE_SPAWNER] = getpid();
        s.image->line[IMAGE_KEEPER] = keeper;
        s.image->line[IMAGE_INIT] = init;
        s.image->is_over = 1;
        watch(&s, true);
        break_mask(&s);
        finish(&s);
        ok(is_alive(keeper));
        eq_int(kill(init, SIGUSR1), 0);
        eq_int(await_keeper(keeper), KILLED + SIGUSR1);
}

static void *move_often(void *arg)
{
        struct struck *s = arg;
        char here[PATH_MAX + 8], there[PATH_MAX + 8];
        snprintf(here, sizeof(here), "%s/no", s->rig.root);
        snprintf(there, sizeof(there), "%s/gone", s->rig.root);
        for (int n = 0; n < 500; n++)
                if (rename(here, there) < 0 || rename(there, here) < 0)
                        return (void *)1;
        return NULL;
}

TEST(one_holds_and_lets_go_while_the_thread_kills)
{
        struct struck s;
        struct err err = ERR_INIT;
        pthread_t thread;
        void *result;
        begin(&s);
        watch(&s, true);
        eq_int(pthread_create(&thread, NULL, move_often, &s), 0);
        for (int n = 0; n < 500; n++) {
                s.hold = guard_let_go(s.guard, s.hold);
                eq_int(guard_hold(s.guard, &s.plan, s.image, &s.hold, &err), 0);
                guard_set_owner(s.guard, s.hold, &s);
                guard_read(s.guard, on_told);
        }
        eq_int(pthread_join(thread, &result), 0);
        ok(result == NULL);
        guard_read(s.guard, on_told);
        s.told = 0;
        break_mask(&s);
        finish(&s);
}

/* placeholder_shared_test: commands make placeholders, share them and remove them. */
#include "unit.h"

#include "sandbox/placeholder_rig_internal.h"

#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- making and removing placeholders ---- */

TEST(placeholders_come_and_go_and_leave_nothing)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "a");
        int before = free_descriptor();
        struct image *i = IMAGE(&rig, "a/.git/", ".env", ".codex/");
        make(i);
        for (size_t n = 0; n < 3; n++) {
                struct stat st;
                const char *path = image_at(i, placeholder_of(i, n)->path);
                eq_int(lstat(path, &st), 0);
                ok(placeholder_has_mark(&st));
                eq_int(S_ISDIR(st.st_mode), n != 1);
                eq_int(op_of(i, n)->is_directory, n != 1);
                eq_u64(op_of(i, n)->ino, st.st_ino);
                eq_u64(placeholder_of(i, n)->dev, st.st_dev);
                ok(!op_of(i, n)->may_be_missing);
        }
        ok(!i->is_over);
        placeholders_remove(i, true);
        placeholders_forget(i);
        eq_int(i->is_over, 1);
        image_unmap(i);
        ok(!exists(&rig, "a/.git") && !exists(&rig, ".env") && !exists(&rig, ".codex"));
        eq_int(rmdir(at(&rig, "a")), 0);
        eq_int(free_descriptor(), before);
}

TEST(a_mask_for_new_files_does_not_hide_a_placeholder)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        mode_t mask = umask(077);
        struct image *one = IMAGE(&rig, ".git/", "f"), *two = IMAGE(&rig, ".git/", "f");
        make(one);
        umask(mask);
        make(two);
        end(one);
        ok(exists(&rig, ".git") && exists(&rig, "f"));
        end(two);
        ok(!exists(&rig, ".git") && !exists(&rig, "f"));
}

TEST(the_last_command_that_shares_a_placeholder_removes_it)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *users[5];
        for (size_t n = 0; n < ARRAY_LEN(users); n++) {
                users[n] = IMAGE(&rig, ".git/");
                make(users[n]);
                eq_u64(placeholder_of(users[n], 0)->ino, placeholder_of(users[0], 0)->ino);
        }
        static const size_t order[] = { 2, 0, 4, 1, 3 };
        for (size_t n = 0; n < ARRAY_LEN(order); n++) {
                ok(exists(&rig, ".git"));
                end(users[order[n]]);
        }
        ok(!exists(&rig, ".git"));
}

TEST(a_placeholder_of_another_kind_is_shared_as_it_is)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *one = IMAGE(&rig, "x/"), *two = IMAGE(&rig, "x");
        make(one);
        make(two);
        ok(op_of(two, 0)->is_directory); /* the mask must be a file or a directory as the placeholder is */
        end(one);
        ok(exists(&rig, "x"));
        end(two);
        ok(!exists(&rig, "x"));
}

TEST(after_the_last_command_the_next_one_makes_a_new_placeholder)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        for (int n = 0; n < 100; n++) {
                struct image *i = IMAGE(&rig, ".git/", "f");
                make(i);
                end(i);
                ok(!exists(&rig, ".git") && !exists(&rig, "f"));
        }
}

TEST(somebody_else_removes_the_placeholders_of_a_keeper_that_was_killed)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *i = IMAGE(&rig, ".git/", "f");
        make_and_die(i);
        ok(exists(&rig, ".git") && exists(&rig, "f"));
        placeholders_remove(i, false);
        image_unmap(i);
        ok(!exists(&rig, ".git") && !exists(&rig, "f"));
}

TEST(the_placeholders_of_a_killed_keeper_stay_while_others_hold_them)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *dead = IMAGE(&rig, ".git/"), *alive = IMAGE(&rig, ".git/");
        make_and_die(dead);
        make(alive);
        placeholders_remove(dead, false);
        image_unmap(dead);
        ok(exists(&rig, ".git"));
        end(alive);
        ok(!exists(&rig, ".git"));
}

static void many_run(struct tree_rig *rig, int rounds)
{
        const struct placeholder_locks *locks = locks_in(rig, ".state");
        for (int n = 0; n < rounds; n++) {
                struct image *i = image_with(rig, locks, (const char *const[]){ ".git/", "f", NULL });
                struct enter_failure why;
                struct stat st;
                if (placeholders_make(i, &why) < 0)
                        _exit(why.os_errno);
                /* While this command uses the placeholder, no other command removes it. */
                if (lstat(at(rig, ".git"), &st) < 0 || st.st_ino != placeholder_of(i, 0)->ino)
                        _exit(200);
                if (lstat(at(rig, "f"), &st) < 0 || st.st_ino != placeholder_of(i, 1)->ino)
                        _exit(201);
                end(i);
        }
        _exit(0);
}

TEST(many_commands_at_once_never_disturb_each_other)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        pid_t pids[8];
        for (size_t n = 0; n < ARRAY_LEN(pids); n++) {
                pids[n] = fork();
                ok(pids[n] >= 0);
                if (pids[n] == 0)
                        many_run(&rig, 100);
        }
        for (size_t n = 0; n < ARRAY_LEN(pids); n++) {
                int status;
                eq_int(waitpid(pids[n], &status, 0), pids[n]);
                eq_int(status, 0);
        }
        ok(!exists(&rig, ".git") && !exists(&rig, "f"));
}

/* ---- what other processes do to a placeholder ---- */

TEST(a_lock_on_a_placeholder_itself_means_nothing)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        static const int modes[] = { LOCK_SH, LOCK_EX };
        for (size_t n = 0; n < ARRAY_LEN(modes); n++) {
                struct image *one = IMAGE(&rig, ".git/", "f"), *two = IMAGE(&rig, ".git/", "f");
                make(one);
                _close_ int directory = open(at(&rig, ".git"), O_RDONLY | O_CLOEXEC);
                _close_ int file = open(at(&rig, "f"), O_RDONLY | O_CLOEXEC);
                ok(flock(directory, modes[n]) == 0 && flock(file, modes[n]) == 0);
                make(two);
                end(one);
                ok(exists(&rig, ".git") && exists(&rig, "f"));
                end(two);
                ok(!exists(&rig, ".git") && !exists(&rig, "f"));
        }
}

TEST(a_locked_directory_that_looks_like_a_placeholder_refuses_nothing)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, ".git");
        eq_int(chmod(at(&rig, ".git"), S_ISVTX | 0555), 0);
        _close_ int fd = open(at(&rig, ".git"), O_RDONLY | O_CLOEXEC);
        eq_int(flock(fd, LOCK_EX), 0);
        struct image *i = IMAGE(&rig, ".git/");
        make(i);
        ok(!placeholder_of(i, 0)->is_ours);
        end(i);
}

/* In a directory that only one user can write, the servers of different users count separately. */
TEST(a_placeholder_of_another_user_is_shared_and_left)
{
        if (!has_openat2())
                skip();
        if (geteuid() != 0) {
                print_message("skipped: only root can give a directory away\n");
                skip();
        }
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, ".git");
        eq_int(chown(at(&rig, ".git"), 65534, 65534), 0);
        eq_int(chmod(at(&rig, ".git"), S_ISVTX | 0555), 0);
        for (int has_fds = 0; has_fds <= 1; has_fds++) {
                struct image *i = IMAGE(&rig, ".git/", "f");
                if (has_fds)
                        make(i);
                else
                        make_and_die(i);
                placeholders_remove(i, has_fds);
                placeholders_forget(i);
                image_unmap(i);
                ok(exists(&rig, ".git") && !exists(&rig, "f"));
        }
}

/* Two lock files stand for the servers of two users. */
TEST(users_of_the_machine_share_what_is_in_a_directory_that_all_may_write)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "all");
        eq_int(chmod(at(&rig, "all"), 01777), 0);
        const char *const names[] = { "all/.git/", "all/f", NULL };
        const struct placeholder_locks *mine = locks_in(&rig, ".mine"), *yours = locks_in(&rig, ".yours");
        struct image *one = image_with(&rig, mine, names), *two = image_with(&rig, yours, names);
        make(one);
        make(two);
        ok(placeholder_of(one, 0)->is_common && placeholder_of(two, 1)->is_common);
        placeholders_remove(one, true);
        ok(exists(&rig, "all/.git") && exists(&rig, "all/f"));
        /* Perhaps only the user who made the placeholders can remove them, so the server of that user does it later. */
        eq_int(placeholder_of(one, 0)->state, PLACEHOLDER_STUCK);
        eq_int(placeholder_of(one, 0)->os_errno, -EBUSY);
        eq_int(placeholder_sweep(mine, at(&rig, "all/f")), PLACEHOLDER_STUCK);
        end(two);
        ok(!exists(&rig, "all/.git") && !exists(&rig, "all/f"));
        eq_int(placeholder_sweep(mine, at(&rig, "all/f")), PLACEHOLDER_GONE);
        image_unmap(one);
}

/* Every user of the machine can take locks in the common file. */
TEST(a_process_that_holds_all_common_locks_prevents_no_start_and_no_removal_in_a_private_directory)
{
        if (!has_openat2())
                skip();
        static const short types[] = { F_RDLCK, F_WRLCK };
        for (size_t n = 0; n < ARRAY_LEN(types); n++) {
                _tree_rig_ struct tree_rig rig = tree_rig_new();
                put_directory(&rig, "all");
                eq_int(chmod(at(&rig, "all"), 01777), 0);
                _close_ int fd = placeholder_common_open();
                if (fd < 0) {
                        print_message("skipped: there is no common file\n");
                        skip();
                }
                struct stat st;
                eq_int(stat(at(&rig, "all"), &st), 0);
                const uint64_t byte = placeholder_common_byte(st.st_dev, st.st_ino, S(".git"));
                struct flock hold = {
                        .l_type = types[n], .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1
                };
                eq_int(fcntl(fd, F_OFD_SETLK, &hold), 0);
                struct image *i = IMAGE(&rig, ".git/", "all/.git/");
                placeholder_of(i, 0)->common_byte = byte;
                make(i);
                ok(!placeholder_of(i, 0)->is_common);
                eq_int(placeholder_of(i, 1)->is_common, types[n] == F_RDLCK);
                placeholders_remove(i, true);
                ok(!exists(&rig, ".git"));
                eq_int(exists(&rig, "all/.git"), types[n] == F_RDLCK);
                image_unmap(i);
        }
}

/* A start waits once for a process that holds the locks, and not for each placeholder. Each round of waiting is a sleep, which
 * the kernel counts. */
TEST(a_process_that_holds_all_common_locks_is_waited_for_once)
{
        if (!has_openat2())
                skip();
        static const char *const names[] = { "all/a", "all/b", "all/c", "all/d", "all/e", "all/f", NULL };
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        put_directory(&rig, "all");
        eq_int(chmod(at(&rig, "all"), 01777), 0);
        _close_ int fd = placeholder_common_open();
        if (fd < 0) {
                print_message("skipped: there is no common file\n");
                skip();
        }
        struct image *i = image_with(&rig, locks_in(&rig, ".state"), names);
        for (size_t n = 0; names[n]; n++)
                eq_int(placeholder_lock_alone(fd, placeholder_of(i, n)->common_byte), 0);
        struct rusage before, after;
        eq_int(getrusage(RUSAGE_SELF, &before), 0);
        make(i);
        eq_int(getrusage(RUSAGE_SELF, &after), 0);
        ok(after.ru_nvcsw - before.ru_nvcsw < 200);
        end(i);
}

TEST(placeholders_with_the_same_byte_in_the_lock_file_do_no_harm)
{
        if (!has_openat2())
                skip();
        _tree_rig_ struct tree_rig rig = tree_rig_new();
        struct image *one = IMAGE(&rig, "a/", "b/"), *two = IMAGE(&rig, "c/");
        placeholder_of(one, 1)->byte = placeholder_of(one, 0)->byte;
        placeholder_of(two, 0)->byte = placeholder_of(one, 0)->byte;
        make(one);
        make(two);
        placeholders_remove(one, true); /* the lock for c makes a and b look as if they were in use */
        eq_int(placeholder_of(one, 0)->state, PLACEHOLDER_OTHERS);
        ok(exists(&rig, "a") && exists(&rig, "b") && exists(&rig, "c"));
        end(two);
        ok(!exists(&rig, "c"));
        image_unmap(one);
        one = IMAGE(&rig, "a/", "b/");
        placeholder_of(one, 1)->byte = placeholder_of(one, 0)->byte;
        make(one);
        end(one);
        ok(!exists(&rig, "a") && !exists(&rig, "b"));
}

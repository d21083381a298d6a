/* Stubs come, are shared, and go; what is a user's stays, whatever somebody does to the directory above. */
#include "unit.h"

#include "sandbox/glob_rig_internal.h"
#include "sandbox/stub.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

static const struct seccomp_filter no_filter;
static const struct image_extra extra = { .filter = &no_filter };

/* An image with one stub for each name; those that end in a slash are directories. What holds them must exist. */
static struct image *image_for(struct glob_rig *rig, const char *const *names)
{
        struct plan_stub stubs[8];
        struct plan_op ops[8];
        struct plan plan = { .has_view = true, .ops = ops, .stubs = stubs };
        for (; names[plan.stub_count]; plan.stub_count++, plan.op_count++) {
                size_t n = plan.stub_count;
                struct stat st;
                ok(n < ARRAY_LEN(stubs));
                char *path = arena_dup(&rig->arena, slice_from_str(at(rig, names[n])));
                bool is_directory = path[strlen(path) - 1] == '/';
                path[strlen(path) - is_directory] = 0;
                char *above = arena_dup(&rig->arena, slice_from_str(path));
                *strrchr(above, '/') = 0;
                eq_int(lstat(above, &st), 0);
                stubs[n] = (struct plan_stub){ .path = slice_from_str(path),
                                               .is_directory = is_directory,
                                               .op = n,
                                               .dev = st.st_dev,
                                               .ino = st.st_ino };
                ops[n] = (struct plan_op){ .kind = PLAN_COVER,
                                           .is_directory = is_directory,
                                           .path = slice_from_str(path) };
        }
        int fd = image_make(&plan, &extra);
        ok(fd >= 0);
        struct image *i = image_map(fd);
        ok(i != NULL);
        close(fd);
        return i;
}
#define IMAGE(rig, ...) image_for(rig, (const char *const[]){ __VA_ARGS__, NULL })

static struct image_stub *stub_of(struct image *i, size_t n)
{
        return (struct image_stub *)(uintptr_t)image_at(i, i->stubs) + n;
}

static const struct image_op *op_of(struct image *i, size_t n)
{
        return (const struct image_op *)image_at(i, i->ops) + n;
}

static void make(struct image *i)
{
        struct enter_failure why = { 0 };
        eq_int(stubs_make(i, &why), 0);
}

static void fails(struct image *i, int code, uint32_t number)
{
        struct enter_failure why = { 0 };
        eq_int(stubs_make(i, &why), code);
        eq_int(why.step, ENTER_STUB);
        eq_int(why.os_errno, -code);
        eq_u64(why.op, number);
        for (uint32_t n = 0; n < i->stub_count; n++)
                ok(stub_of(i, n)->fd < 0);
        image_unmap(i);
}

static void end(struct image *i)
{
        stubs_remove(i, true);
        stubs_forget(i);
        image_unmap(i);
}

static bool exists(struct glob_rig *rig, const char *name)
{
        struct stat st;
        return lstat(at(rig, name), &st) == 0;
}

static void write_text(struct glob_rig *rig, const char *name, const char *text)
{
        _close_ int fd = open(at(rig, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, slice_from_str(text)), 0);
}

static int free_descriptor(void)
{
        int fd = dup(0);
        close(fd);
        return fd;
}

/* ---- making and removing ---- */

TEST(stubs_come_and_go_and_leave_nothing)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        put_directory(&rig, "a");
        int before = free_descriptor();
        struct image *i = IMAGE(&rig, "a/.git/", ".env", ".codex/");
        make(i);
        for (size_t n = 0; n < 3; n++) {
                struct stat st;
                const char *path = image_at(i, stub_of(i, n)->path);
                eq_int(lstat(path, &st), 0);
                ok(stub_looks_so(&st));
                eq_int(S_ISDIR(st.st_mode), n != 1);
                eq_int(op_of(i, n)->is_directory, n != 1);
                eq_u64(op_of(i, n)->ino, st.st_ino);
                eq_u64(stub_of(i, n)->dev, st.st_dev);
                ok(!op_of(i, n)->may_miss);
        }
        ok(!i->is_over);
        stubs_remove(i, true);
        stubs_forget(i);
        eq_int(i->is_over, 1);
        image_unmap(i);
        ok(!exists(&rig, "a/.git") && !exists(&rig, ".env") && !exists(&rig, ".codex"));
        eq_int(rmdir(at(&rig, "a")), 0);
        eq_int(free_descriptor(), before);
}

TEST(a_mask_for_new_files_does_not_hide_a_stub)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
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

TEST(the_last_of_those_who_share_removes_it)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *users[5];
        for (size_t n = 0; n < ARRAY_LEN(users); n++) {
                users[n] = IMAGE(&rig, ".git/");
                make(users[n]);
                eq_u64(stub_of(users[n], 0)->ino, stub_of(users[0], 0)->ino);
        }
        static const size_t order[] = { 2, 0, 4, 1, 3 };
        for (size_t n = 0; n < ARRAY_LEN(order); n++) {
                ok(exists(&rig, ".git"));
                end(users[order[n]]);
        }
        ok(!exists(&rig, ".git"));
}

TEST(a_stub_of_another_kind_is_shared_as_it_is)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *one = IMAGE(&rig, "x/"), *two = IMAGE(&rig, "x");
        make(one);
        make(two);
        ok(op_of(two, 0)->is_directory); /* what lies on it must be of its kind */
        end(one);
        ok(exists(&rig, "x"));
        end(two);
        ok(!exists(&rig, "x"));
}

TEST(who_makes_it_again_after_the_last_gets_a_new_one)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        for (int n = 0; n < 100; n++) {
                struct image *i = IMAGE(&rig, ".git/", "f");
                make(i);
                end(i);
                ok(!exists(&rig, ".git") && !exists(&rig, "f"));
        }
}

/* What a keeper does that is killed when it has made its stubs. */
static void make_and_die(struct image *i)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                struct enter_failure why;
                if (stubs_make(i, &why) < 0)
                        _exit(1);
                (void)raise(SIGKILL);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFSIGNALED(status));
}

TEST(somebody_else_removes_the_stubs_of_a_keeper_that_was_killed)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *i = IMAGE(&rig, ".git/", "f");
        make_and_die(i);
        ok(exists(&rig, ".git") && exists(&rig, "f"));
        stubs_remove(i, false);
        image_unmap(i);
        ok(!exists(&rig, ".git") && !exists(&rig, "f"));
}

TEST(the_stubs_of_a_killed_keeper_stay_while_others_hold_them)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *dead = IMAGE(&rig, ".git/"), *alive = IMAGE(&rig, ".git/");
        make_and_die(dead);
        make(alive);
        stubs_remove(dead, false);
        image_unmap(dead);
        ok(exists(&rig, ".git"));
        end(alive);
        ok(!exists(&rig, ".git"));
}

static void many_run(struct glob_rig *rig, int rounds)
{
        for (int n = 0; n < rounds; n++) {
                struct image *i = IMAGE(rig, ".git/", "f");
                struct enter_failure why;
                struct stat st;
                if (stubs_make(i, &why) < 0)
                        _exit(why.os_errno);
                /* As long as we hold it nobody takes it away. */
                if (lstat(at(rig, ".git"), &st) < 0 || st.st_ino != stub_of(i, 0)->ino)
                        _exit(200);
                if (lstat(at(rig, "f"), &st) < 0 || st.st_ino != stub_of(i, 1)->ino)
                        _exit(201);
                end(i);
        }
        _exit(0);
}

TEST(many_at_once_never_disturb_each_other)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
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

/* ---- what is a user's ---- */

TEST(what_a_user_has_there_refuses_the_stub_and_stays)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        put_directory(&rig, "directory");
        write_text(&rig, "file", "mine");
        put_file(&rig, "empty");
        put_directory(&rig, "target");
        put_link(&rig, "target", "link");
        put_link(&rig, "nowhere", "dangling");
        eq_int(mkfifo(at(&rig, "fifo"), 0644), 0);
        fails(IMAGE(&rig, "first/", "directory/"), -EEXIST, 1);
        fails(IMAGE(&rig, "first/", "file"), -EEXIST, 1);
        fails(IMAGE(&rig, "first/", "empty"), -EEXIST, 1);
        fails(IMAGE(&rig, "first/", "link/"), -ELOOP, 1);
        fails(IMAGE(&rig, "first/", "dangling"), -ELOOP, 1);
        fails(IMAGE(&rig, "first/", "fifo"), -EEXIST, 1);
        ok(!exists(&rig, "first") && !exists(&rig, "nowhere"));
        static const char *const names[] = { "directory", "file",     "empty", "target",
                                             "link",      "dangling", "fifo" };
        for (size_t n = 0; n < ARRAY_LEN(names); n++)
                ok(exists(&rig, names[n]));
}

TEST(a_stub_that_came_to_hold_something_stays)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *i = IMAGE(&rig, ".git/", "f");
        make(i);
        eq_int(chmod(at(&rig, ".git"), 0755), 0);
        eq_int(chmod(at(&rig, "f"), 0644), 0);
        write_text(&rig, ".git/HEAD", "ref");
        write_text(&rig, "f", "mine");
        end(i);
        ok(exists(&rig, ".git/HEAD") && exists(&rig, "f"));
}

TEST(what_was_put_in_the_place_of_a_stub_stays)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *i = IMAGE(&rig, ".git/", "f", "g");
        make(i);
        /* Even what looks exactly so: it is another one. */
        put_directory(&rig, "new");
        eq_int(chmod(at(&rig, "new"), S_ISVTX | 0555), 0);
        eq_int(rmdir(at(&rig, ".git")), 0);
        move_to(&rig, "new", ".git");
        put_file(&rig, "saved");
        move_to(&rig, "saved", "f");
        eq_int(unlink(at(&rig, "g")), 0);
        put_link(&rig, "f", "g");
        end(i);
        ok(exists(&rig, ".git") && exists(&rig, "f") && exists(&rig, "g"));
}

TEST(an_empty_stub_goes_whatever_its_mode_has_become)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *i = IMAGE(&rig, ".git/", "f");
        make(i);
        eq_int(chmod(at(&rig, ".git"), 0755), 0);
        eq_int(chmod(at(&rig, "f"), 0644), 0);
        end(i);
        ok(!exists(&rig, ".git") && !exists(&rig, "f"));
}

/* ---- the directory above ---- */

TEST(a_directory_that_was_exchanged_since_the_plan_gets_no_stub)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        put_directory(&rig, "w");
        put_directory(&rig, "victim");
        struct image *i = IMAGE(&rig, "w/.git/");
        move_to(&rig, "w", "moved");
        put_directory(&rig, "w");
        fails(i, -ESTALE, 0);

        i = IMAGE(&rig, "w/.git/");
        eq_int(rmdir(at(&rig, "w")), 0);
        fails(i, -ENOENT, 0);

        put_directory(&rig, "w");
        i = IMAGE(&rig, "w/.git/");
        eq_int(rmdir(at(&rig, "w")), 0);
        put_link(&rig, "victim", "w");
        fails(i, -ELOOP, 0);
        ok(!exists(&rig, "victim/.git") && !exists(&rig, "moved/.git") && !exists(&rig, "w/.git"));
}

TEST(a_link_in_the_place_of_the_directory_leads_no_removal_elsewhere)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        put_directory(&rig, "w");
        put_directory(&rig, "victim");
        put_directory(&rig, "victim/.git");
        put_file(&rig, "victim/f");
        eq_int(chmod(at(&rig, "victim/.git"), S_ISVTX | 0555), 0);
        eq_int(chmod(at(&rig, "victim/f"), S_ISVTX | 0444), 0);
        for (int has_fds = 0; has_fds <= 1; has_fds++) {
                struct image *i = IMAGE(&rig, "w/.git/", "w/f");
                if (has_fds)
                        make(i);
                else
                        make_and_die(i);
                move_to(&rig, "w", "moved");
                put_link(&rig, "victim", "w");
                stubs_remove(i, has_fds);
                stubs_forget(i);
                image_unmap(i);
                ok(exists(&rig, "victim/.git") && exists(&rig, "victim/f"));
                eq_int(unlink(at(&rig, "w")), 0);
                /* Who has them open finds them where they are now. */
                eq_int(rmdir(at(&rig, "moved/.git")), has_fds ? -1 : 0);
                eq_int(unlink(at(&rig, "moved/f")), has_fds ? -1 : 0);
                move_to(&rig, "moved", "w");
        }
}

TEST(another_directory_in_its_place_loses_nothing)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        put_directory(&rig, "w");
        struct image *i = IMAGE(&rig, "w/.git/", "w/f");
        make(i);
        move_to(&rig, "w", "moved");
        put_directory(&rig, "w");
        put_directory(&rig, "w/.git");
        put_file(&rig, "w/f");
        end(i);
        ok(exists(&rig, "w/.git") && exists(&rig, "w/f"));
}

/* ---- where we may not make anything ---- */

static int make_as_nobody(struct glob_rig *rig)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                if (setresuid(65534, 65534, 65534) < 0)
                        _exit(99);
                struct enter_failure why;
                struct image *i = IMAGE(rig, "w/.git/");
                int r = stubs_make(i, &why);
                if (r == 0 && (!op_of(i, 0)->may_miss || stub_of(i, 0)->fd >= 0))
                        _exit(98);
                end(i);
                _exit(-r);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        ok(WIFEXITED(status));
        return WEXITSTATUS(status);
}

TEST(what_the_command_cannot_make_either_needs_no_stub)
{
        if (!has_openat2())
                skip();
        if (geteuid() != 0) {
                print_message("skipped: only root can give a directory away\n");
                skip();
        }
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        put_directory(&rig, "w");
        eq_int(chmod(rig.root, 0755), 0);
        eq_int(make_as_nobody(&rig), 0);
        /* Its own, closed for now: it could open it. */
        eq_int(chmod(at(&rig, "w"), 0555), 0);
        eq_int(chown(at(&rig, "w"), 65534, 65534), 0);
        eq_int(make_as_nobody(&rig), EACCES);
        ok(!exists(&rig, "w/.git"));
}

/* ---- the sweep of what a crash left ---- */

TEST(a_sweep_removes_stubs_that_nobody_holds)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *dead = IMAGE(&rig, ".git/", "f");
        make_and_die(dead);
        image_unmap(dead);
        stub_sweep(at(&rig, ".git"));
        stub_sweep(at(&rig, "f"));
        ok(!exists(&rig, ".git") && !exists(&rig, "f"));
}

TEST(a_sweep_leaves_what_is_held_and_what_is_no_stub)
{
        if (!has_openat2())
                skip();
        _glob_rig_ struct glob_rig rig = glob_rig_new();
        struct image *i = IMAGE(&rig, "held/");
        make(i);
        put_directory(&rig, "directory");
        put_directory(&rig, "tmp");
        put_file(&rig, "empty");
        write_text(&rig, "text", "x");
        put_directory(&rig, "full");
        put_file(&rig, "full/x");
        eq_int(chmod(at(&rig, "tmp"), 01777), 0);
        eq_int(chmod(at(&rig, "text"), S_ISVTX | 0444), 0);
        eq_int(chmod(at(&rig, "full"), S_ISVTX | 0555), 0);
        put_directory(&rig, "target");
        eq_int(chmod(at(&rig, "target"), S_ISVTX | 0555), 0);
        put_link(&rig, "target", "link");
        put_link(&rig, ".", "here");
        eq_int(mkfifo(at(&rig, "fifo"), S_ISVTX | 0444), 0);
        static const char *const names[] = { "held", "directory", "tmp",  "empty",
                                             "text", "full",      "link", "fifo" };
        for (size_t n = 0; n < ARRAY_LEN(names); n++) {
                stub_sweep(at(&rig, names[n]));
                ok(exists(&rig, names[n]));
        }
        stub_sweep(at(&rig, "here/target")); /* through a link */
        ok(exists(&rig, "target"));
        end(i);
        ok(!exists(&rig, "held"));
}

TEST(a_sweep_of_what_is_no_path_does_nothing)
{
        if (!has_openat2())
                skip();
        char *path = mem_alloc(2 * PATH_MAX);
        memset(path, 'x', 2 * PATH_MAX - 1);
        path[2 * PATH_MAX - 1] = 0;
        int before = free_descriptor();
        stub_sweep("");
        stub_sweep("/");
        stub_sweep("relative");
        stub_sweep("/none/");
        stub_sweep("/farhand-is-not-here/x");
        stub_sweep(path);
        path[0] = '/';
        path[PATH_MAX - 1] = 0;
        stub_sweep(path);
        eq_int(free_descriptor(), before);
        free(path);
}

TEST(only_sticky_things_that_nobody_may_write_look_like_stubs)
{
        static const struct {
                mode_t mode;
                off_t size;
                bool is_one;
        } rows[] = {
                { S_IFDIR | S_ISVTX | 0555, 4096, true },
                { S_IFDIR | S_ISVTX | 0500, 40, true },
                { S_IFDIR | S_ISVTX, 0, true },
                { S_IFREG | S_ISVTX | 0444, 0, true },
                { S_IFREG | S_ISVTX | 0444, 1, false },
                { S_IFREG | S_ISVTX | 0644, 0, false },
                { S_IFDIR | S_ISVTX | 0557, 0, false },
                { S_IFDIR | S_ISVTX | 0575, 0, false },
                { S_IFDIR | 0555, 0, false },
                { S_IFREG | 0444, 0, false },
                { S_IFLNK | S_ISVTX | 0555, 0, false },
                { S_IFIFO | S_ISVTX | 0444, 0, false },
                { S_IFSOCK | S_ISVTX | 0444, 0, false },
        };
        for (size_t n = 0; n < ARRAY_LEN(rows); n++)
                eq_int(stub_looks_so(&(struct stat){ .st_mode = rows[n].mode, .st_size = rows[n].size }),
                       rows[n].is_one);
}

/* cgroup_test: finds our cgroup, makes leaves, and checks that nothing is left. Writes only to directories that the tests make. */
#include "unit.h"

#include "keeper/cgroup.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- finding the directory ---- */

TEST(the_own_directory_is_found_in_the_mount_table)
{
#define V1 "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
        static const struct {
                const char *self, *mounts, *path;
                size_t mount;
        } rows[] = {
                { "0::/a/b\n", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
                  "/sys/fs/cgroup/a/b", 14 },
                { "0::/\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup", 14 },
                { "9:pids:/x\n1:cpu:/\n0::/y\n", V1 "41 31 0:38 / /unified rw - cgroup2 cgroup2 rw\n" V1,
                  "/unified/y", 8 },
                { "0::/y", "41 31 0:38 / /a\\040b rw master:1 shared:2 - cgroup2 none rw", "/a b/y", 4 },
                { "0::/docker/id/x\n", "1 2 0:3 /docker/id /cg ro - cgroup2 none ro\n", "/cg/x", 3 },
                { "0::/docker/id\n", "1 2 0:3 /docker/id /cg ro - cgroup2 none ro\n", "/cg", 3 },
                { "0::/docker/idle\n", "1 2 0:3 /docker/id /cg ro - cgroup2 none ro\n", NULL, 0 },
                { "0::/a\n", "1 2 0:3 / /one rw - cgroup2 none rw\n2 2 0:3 / /two rw - cgroup2 none rw\n",
                  "/two/a", 4 },
                { "0::/../up\n", "1 2 0:3 / /cg rw - cgroup2 none rw\n", NULL, 0 },
                { "0::/a\n", V1, NULL, 0 },
                { "0::/a\n", "", NULL, 0 },
                { "1:cpu:/\n", "1 2 0:3 / /cg rw - cgroup2 none rw\n", NULL, 0 },
                { "", "1 2 0:3 / /cg rw - cgroup2 none rw\n", NULL, 0 },
                { "0::", "1 2 0:3 / /cg rw - cgroup2 none rw\n", NULL, 0 },
                { "0::/a", "1 2 0:3 - cgroup2\n\n- - - - - - -\n     - cgroup2\n", NULL, 0 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _buf_ struct buf path = BUF_INIT(256);
                size_t mount = 0;
                int r = cgroup_path_find(slice_from_str(rows[i].self), slice_from_str(rows[i].mounts), &path,
                                         &mount);
                eq_int(r, rows[i].path ? 0 : -ENOENT);
                eq_str(path.p, rows[i].path ? rows[i].path : "");
                eq_u64(mount, rows[i].mount);
        }
}

TEST(half_a_mount_table_is_no_harm)
{
        const char *all = "30 23 0:26 /ro\\134ot /sys\\011x rw shared:4 - cgroup2 cgroup2 rw\n";
        for (size_t n = 0; n <= strlen(all); n++) {
                _free_ char *part = slice_dup(slice_from(all, n));
                _buf_ struct buf path = BUF_INIT(256);
                size_t mount;
                int r = cgroup_path_find(S("0::/ro\\ot/a\n"), slice_from(part, n), &path, &mount);
                ok(r == -ENOENT || r == 0);
                if (r == 0)
                        eq_str(path.p, "/sys\tx/a");
        }
}

TEST(a_path_over_the_ceiling_is_refused)
{
        _buf_ struct buf path = BUF_INIT(6);
        size_t mount;
        eq_int(cgroup_path_find(S("0::/abc\n"), S("1 2 0:3 / /cg rw - cgroup2 none rw\n"), &path, &mount),
               -ENOBUFS);
        eq_u64(path.n, 0);
}

/* ---- writing and reading, with plain files ---- */

static void file_put(int dir, const char *name, const char *text)
{
        _close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ok(fd >= 0);
        eq_int(write(fd, text, strlen(text)), strlen(text));
}

static void file_is(int dir, const char *name, const char *text)
{
        char got[256];
        _close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        ok(fd >= 0);
        ssize_t n = read(fd, got, sizeof(got) - 1);
        ok(n >= 0);
        got[n] = 0;
        eq_str(got, text);
}

static int plain_open(char path[])
{
        ok(mkdtemp(path) != NULL);
        int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ok(dir >= 0);
        return dir;
}

static const char *const plain_files[] = { "memory.max",  "memory.swap.max", "memory.oom.group",
                                           "pids.max",    "memory.events",   "pids.events",
                                           "cgroup.kill", "cgroup.procs" };

static void plain_close(const char *path, int dir)
{
        for (size_t i = 0; i < ARRAY_LEN(plain_files); i++)
                (void)unlinkat(dir, plain_files[i], 0);
        close(dir);
        eq_int(rmdir(path), 0);
}

TEST(limits_are_written_as_the_kernel_wants_them)
{
        char path[] = "/tmp/cgroup_test_XXXXXX";
        int dir = plain_open(path);
        struct cgroup_limits none = { 0 }, both = { .memory_bytes = 64 << 20, .processes = 10 };
        eq_int(cgroup_leaf_limit(dir, &none), 0);
        eq_int(cgroup_leaf_limit(dir, &both), -ENOENT);
        for (size_t i = 0; i < 4; i++)
                file_put(dir, plain_files[i], "");
        eq_int(cgroup_leaf_limit(dir, &both), 0);
        file_is(dir, "memory.max", "67108864");
        file_is(dir, "memory.swap.max", "0");
        file_is(dir, "memory.oom.group", "1");
        file_is(dir, "pids.max", "10");
        file_put(dir, "pids.max", "");
        both.processes = UINT64_MAX;
        eq_int(cgroup_leaf_limit(dir, &both), 0);
        file_is(dir, "pids.max", "4194304");
        plain_close(path, dir);
}

TEST(events_are_seen_when_their_number_is_not_zero)
{
        char path[] = "/tmp/cgroup_test_XXXXXX";
        int dir = plain_open(path);
        eq_u64(cgroup_leaf_events(dir), 0);
        file_put(dir, "memory.events", "low 0\nhigh 3\nmax 7\noom 2\noom_kill 0\noom_group_kill 4\n");
        file_put(dir, "pids.events", "max 0\n");
        eq_u64(cgroup_leaf_events(dir), 0);
        file_put(dir, "memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 12\n");
        eq_u64(cgroup_leaf_events(dir), CGROUP_MEMORY);
        file_put(dir, "pids.events", "max 1");
        eq_u64(cgroup_leaf_events(dir), CGROUP_MEMORY | CGROUP_PIDS);
        file_put(dir, "memory.events", "oom_kill");
        file_put(dir, "pids.events", "\n\nmax\n");
        eq_u64(cgroup_leaf_events(dir), 0);
        plain_close(path, dir);
}

TEST(killing_and_entering_write_one_character)
{
        char path[] = "/tmp/cgroup_test_XXXXXX";
        int dir = plain_open(path);
        eq_int(cgroup_leaf_kill(dir), -ENOENT);
        file_put(dir, "cgroup.kill", "");
        file_put(dir, "cgroup.procs", "");
        eq_int(cgroup_leaf_kill(dir), 0);
        eq_int(cgroup_leaf_enter(dir), 0);
        file_is(dir, "cgroup.kill", "1");
        file_is(dir, "cgroup.procs", "0");
        plain_close(path, dir);
}

/* ---- real cgroups, where they can be made ---- */

/* Opens real cgroups, or skips the test where none can be made. */
static void real_open(struct cgroup *c)
{
        if (cgroup_open(c) < 0)
                skip();
}

static bool is_there(int dir, const char *name)
{
        struct stat st;
        return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(a_closed_one_left_nothing)
{
        struct cgroup c;
        real_open(&c);
        int base = fcntl(c.base, F_DUPFD_CLOEXEC, 3);
        char name[CGROUP_NAME_BYTES];
        memcpy(name, c.name, sizeof(name));
        ok(is_there(base, name));

        const struct cgroup_limits none = { 0 };
        uint64_t leaf;
        int fd;
        eq_int(cgroup_leaf_add(&c, &none, &leaf, &fd), 0);
        ok(is_there(c.home, "1"));
        /* A command may make cgroups in its leaf. */
        eq_int(mkdirat(fd, "below", 0755), 0);
        eq_int(mkdirat(fd, "below/further", 0755), 0);
        close(fd);
        cgroup_leaf_remove(&c, leaf);
        ok(!is_there(c.home, "1"));

        eq_int(cgroup_leaf_add(&c, &none, &leaf, &fd), 0);
        ok(is_there(c.home, "2"));
        close(fd);
        cgroup_close(&c);
        cgroup_close(&c);
        ok(!is_there(base, name));
        close(base);
        ok(cgroup_probe() >= 0);
}

TEST(a_leaf_made_ahead_is_the_next_one_and_goes_with_the_last)
{
        struct cgroup c;
        real_open(&c);
        const struct cgroup_limits none = { 0 };
        uint64_t leaf;
        int fd;
        cgroup_leaf_prepare(&c);
        cgroup_leaf_prepare(&c);
        ok(is_there(c.home, "1"));
        ok(!is_there(c.home, "2"));
        eq_int(cgroup_leaf_add(&c, &none, &leaf, &fd), 0);
        eq_u64(leaf, 1);
        close(fd);
        cgroup_leaf_prepare(&c);
        ok(is_there(c.home, "2"));
        cgroup_leaf_abandon(&c, leaf);
        ok(!is_there(c.base, c.name));
        cgroup_close(&c);
}

TEST(limits_without_their_controller_are_refused)
{
        struct cgroup c;
        real_open(&c);
        uint64_t leaf;
        int fd;
        c.controllers = CGROUP_PIDS;
        eq_int(cgroup_leaf_add(&c, &(struct cgroup_limits){ .memory_bytes = 1 }, &leaf, &fd), -ENOTSUP);
        c.controllers = CGROUP_MEMORY;
        eq_int(cgroup_leaf_add(&c, &(struct cgroup_limits){ .processes = 1 }, &leaf, &fd), -ENOTSUP);
        /* When the files of the limits are missing, the leaf is removed again. */
        c.controllers = CGROUP_PIDS;
        if (cgroup_leaf_add(&c, &(struct cgroup_limits){ .processes = 1 }, &leaf, &fd) == 0)
                close(fd);
        else
                ok(!is_there(c.home, "1"));
        cgroup_close(&c);
}

/* Makes a process in a leaf; it sleeps until it is killed. */
static pid_t sleeper_start(int leaf)
{
        int ready[2];
        eq_int(pipe2(ready, O_CLOEXEC), 0);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                char ok_ = cgroup_leaf_enter(leaf) == 0 ? 'y' : 'n';
                if (write(ready[1], &ok_, 1) != 1)
                        _exit(1);
                for (;;)
                        pause();
        }
        char answer = 0;
        eq_int(read(ready[0], &answer, 1), 1);
        eq_int(answer, 'y');
        close(ready[0]);
        close(ready[1]);
        return pid;
}

TEST(a_busy_leaf_is_removed_when_its_last_process_has_gone)
{
        struct cgroup c;
        real_open(&c);
        uint64_t leaf;
        int fd;
        eq_int(cgroup_leaf_add(&c, &(struct cgroup_limits){ 0 }, &leaf, &fd), 0);
        pid_t pid = sleeper_start(fd);
        cgroup_leaf_remove(&c, leaf);
        ok(is_there(c.home, "1"));
        ok(cgroup_tidy(&c));
        cgroup_leaf_end(&c, leaf);
        if (!is_there(fd, "cgroup.kill")) /* before Linux 5.14 */
                eq_int(kill(pid, SIGKILL), 0);
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(WTERMSIG(status), SIGKILL);
        ok(!cgroup_tidy(&c));
        ok(!is_there(c.home, "1"));
        close(fd);
        cgroup_close(&c);
}

/* Starts a child that makes farhand-PID and writes the name of that directory to `out`. The child waits to be killed if `stays`;
 * otherwise it ends without removing the directory. */
static pid_t other_start(int out, bool stays)
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid > 0)
                return pid;
        struct cgroup c;
        uint64_t leaf;
        int fd;
        if (cgroup_open(&c) < 0 || cgroup_leaf_add(&c, &(struct cgroup_limits){ 0 }, &leaf, &fd) < 0)
                _exit(1);
        if (write(out, c.name, sizeof(c.name)) != sizeof(c.name))
                _exit(1);
        while (stays)
                pause();
        _exit(0);
}

TEST(what_a_dead_server_left_is_removed_by_the_next_and_a_living_ones_is_not)
{
        struct cgroup c;
        real_open(&c);
        int base = fcntl(c.base, F_DUPFD_CLOEXEC, 3);
        cgroup_close(&c);
        int out[2];
        eq_int(pipe2(out, O_CLOEXEC), 0);
        char living[CGROUP_NAME_BYTES], dead[CGROUP_NAME_BYTES];
        pid_t lives = other_start(out[1], true);
        eq_int(read(out[0], living, sizeof(living)), sizeof(living));
        pid_t dies = other_start(out[1], false);
        eq_int(read(out[0], dead, sizeof(dead)), sizeof(dead));
        eq_int(waitpid(dies, NULL, 0), dies);
        ok(is_there(base, dead));

        real_open(&c);
        ok(!is_there(base, dead));
        ok(is_there(base, living));
        eq_int(kill(lives, SIGKILL), 0);
        eq_int(waitpid(lives, NULL, 0), lives);
        cgroup_close(&c);
        ok(cgroup_probe() >= 0);
        ok(!is_there(base, living));
        close(base);
        close(out[0]);
        close(out[1]);
}

/* Waits for a process that `home` was to end; before Linux 5.14 there is no cgroup.kill, and the test does it. */
static void sleeper_end(int home, pid_t pid)
{
        int status;
        if (!is_there(home, "cgroup.kill"))
                eq_int(kill(pid, SIGKILL), 0);
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(WTERMSIG(status), SIGKILL);
}

/* Makes a farhand-PID of a server that is dead, in which a process is left. Returns the descriptor of its leaf. */
static int lost_make(int base, char name[CGROUP_NAME_BYTES], pid_t *ret_server, pid_t *ret_left)
{
        int out[2];
        eq_int(pipe2(out, O_CLOEXEC), 0);
        *ret_server = other_start(out[1], false);
        eq_int(read(out[0], name, CGROUP_NAME_BYTES), CGROUP_NAME_BYTES);
        eq_int(waitpid(*ret_server, NULL, 0), *ret_server);
        _close_ int home = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int leaf = openat(home, "1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ok(leaf >= 0);
        *ret_left = sleeper_start(leaf);
        close(out[0]);
        close(out[1]);
        return leaf;
}

TEST(what_a_dead_server_has_left_ends_when_it_is_reclaimed_or_the_next_one_comes)
{
        struct cgroup c;
        real_open(&c);
        int base = fcntl(c.base, F_DUPFD_CLOEXEC, 3);
        cgroup_close(&c);
        for (int i = 0; i < 2; i++) {
                char name[CGROUP_NAME_BYTES];
                pid_t server, left;
                int leaf = lost_make(base, name, &server, &left);
                if (i == 0)
                        cgroup_reclaim(server);
                else
                        ok(cgroup_probe() >= 0);
                sleeper_end(leaf, left);
                close(leaf);
                ok(cgroup_probe() >= 0);
                ok(!is_there(base, name));
                cgroup_reclaim(server);
        }
        close(base);
}

TEST(what_a_living_server_runs_is_left_alone)
{
        struct cgroup c;
        real_open(&c);
        uint64_t leaf;
        int fd;
        eq_int(cgroup_leaf_add(&c, &(struct cgroup_limits){ 0 }, &leaf, &fd), 0);
        pid_t pid = sleeper_start(fd);
        ok(cgroup_probe() >= 0);
        int status;
        eq_int(waitpid(pid, &status, WNOHANG), 0);
        /* A keeper whose spawner is dead ends what other keepers have left, too. */
        cgroup_leaf_abandon(&c, leaf + 1);
        sleeper_end(fd, pid);
        close(fd);
        cgroup_leaf_remove(&c, leaf);
        cgroup_close(&c);
}

TEST(a_name_that_is_taken_gives_another)
{
        struct cgroup c, second;
        real_open(&c);
        eq_int(cgroup_open(&second), 0); /* the pid is the same, so the first name is taken */
        ok(strcmp(c.name, second.name) != 0);
        ok(is_there(c.base, second.name));
        cgroup_close(&second);
        ok(is_there(c.base, c.name));
        cgroup_close(&c);
}

/* The cgroup home/d has the mark of systemd, and this process is in home/d/s: then leaves are made in home/d. */
TEST(a_delegated_parent_is_the_place_for_leaves)
{
        struct cgroup c;
        real_open(&c);
        eq_int(mkdirat(c.home, "d", 0755), 0);
        eq_int(mkdirat(c.home, "d/s", 0755), 0);
        _close_ int d = openat(c.home, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ok(d >= 0);
        bool is_marked = fsetxattr(d, "user.delegate", "1", 1, 0) == 0;
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                struct cgroup inner;
                int s = openat(d, "s", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (cgroup_leaf_enter(s) < 0 || cgroup_open(&inner) < 0)
                        _exit(1);
                int where = is_there(d, inner.name) ? 0 : is_there(s, inner.name) ? 2 : 3;
                cgroup_close(&inner);
                _exit(where);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, is_marked ? 0 : 2 << 8);
        cgroup_close(&c);
}

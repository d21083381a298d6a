/* lineage_test: finds out what a process descends from, with real processes. */
#include "proc/lineage.h"

#include "base/fd.h"
#include "keeper/keeper_shared.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200

TEST(stat_has_a_name_and_a_parent)
{
        static const struct {
                const char *text, *name;
                pid_t parent;
        } good[] = {
                { "12 (sh) S 34 12 12 0 -1\n", "sh", 34 },
                { "12 (a b) c) R 1 ", "a b) c", 1 },
                { "12 () Z 0 0", "", 0 },
                { "12 (fh-keeper-plain) S 7 1", KEEPER_PLAIN_NAME, 7 },
                { "12 (kworker/u8:3-events_unbound) I 2 0", "", 2 },
                { "12 (S 99 ) S 3 1", "S 99 ", 3 },
        };
        static const char *const bad[] = {
                "",
                "12",
                "12 (sh",
                "12 sh) S 1 ",
                "12 (sh)",
                "12 (sh) S",
                "12 (sh) S ",
                "12 (sh) S x 1",
                "12 (sh) S -1 1",
                "12 (sh) S 99999999999 1",
                "12 (sh) S 1",
                ")(",
        };
        struct lineage_stat st;
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                eq_int(lineage_stat_parse(good[i].text, &st), 0);
                eq_str(st.name, good[i].name);
                eq_int(st.parent, good[i].parent);
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                eq_int(lineage_stat_parse(bad[i], &st), -EBADMSG);
}

/* A tree below us, as a server has it: spawner, keeper, and `last`, a process below the keeper. All end when `hold` is closed. */
struct family {
        pid_t spawner, keeper, last;
        int hold;
};

/* Forks, and writes `which` and the child's pid to `to`. `which` is 0 for the keeper and 1 for the last process. */
static pid_t fork_and_tell(int to, pid_t which)
{
        pid_t pid = fork();
        const pid_t words[] = { which, pid };
        if (pid > 0 && to >= 0 && write(to, words, sizeof(words)) != sizeof(words))
                _exit(1);
        return pid;
}

static void hear(int from, pid_t ret[static 2])
{
        pid_t words[2];
        eq_int(read(from, words, sizeof(words)), sizeof(words));
        ret[words[0]] = words[1];
}

static NORETURN void wait_for_end(int hold)
{
        char c;
        ssize_t n = read(hold, &c, 1);
        while (n >= 0 && wait(NULL) > 0)
                continue;
        _exit(0);
}

static void keeper_begin(const char *name, bool is_filtered)
{
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = { 1, &allow };
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        (void)prctl(PR_SET_NAME, name);
        if (is_filtered && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0))
                _exit(1);
}

static struct family family_make(const char *keeper, bool is_filtered, int depth)
{
        int told[2], hold[2];
        struct family f = { 0 };
        eq_int(pipe2(told, O_CLOEXEC), 0);
        eq_int(pipe2(hold, O_CLOEXEC), 0);
        f.spawner = fork();
        if (f.spawner == 0) {
                fd_close(hold[1]);
                if (fork_and_tell(told[1], 0) > 0)
                        wait_for_end(hold[0]);
                keeper_begin(keeper, is_filtered);
                for (int i = 0; i < depth; i++)
                        if (fork_and_tell(i == depth - 1 ? told[1] : -1, 1) > 0)
                                wait_for_end(hold[0]);
                wait_for_end(hold[0]);
        }
        fd_close(hold[0]);
        fd_close(told[1]);
        pid_t pids[2];
        hear(told[0], pids);
        hear(told[0], pids);
        f.keeper = pids[0];
        f.last = pids[1];
        fd_close(told[0]);
        f.hold = hold[1];
        return f;
}

static void family_end(struct family *f)
{
        f->hold = fd_close(f->hold);
        eq_int(waitpid(f->spawner, NULL, 0), f->spawner);
}

static int dir_of(pid_t pid)
{
        char path[32];
        (void)snprintf(path, sizeof(path), "/proc/%d", pid);
        return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static enum lineage find(pid_t pid, struct lineage_roots roots)
{
        _close_ int dir = dir_of(pid);
        ok(dir >= 0);
        roots.server = getpid();
        return lineage_find(pid, dir, &roots);
}

TEST(what_descends_from_a_plain_keeper_is_plain)
{
        struct family f = family_make(KEEPER_PLAIN_NAME, false, 5);
        const struct lineage_roots roots = { .spawner = f.spawner };
        eq_int(find(f.last, roots), LINEAGE_PLAIN);
        /* The keeper and the spawner themselves are no commands. */
        eq_int(find(f.keeper, roots), LINEAGE_SANDBOXED);
        eq_int(find(f.spawner, roots), LINEAGE_SANDBOXED);
        family_end(&f);
}

TEST(what_descends_from_any_other_is_sandboxed)
{
        static const char *const names[] = { KEEPER_NAME, KEEPER_PREBUILT_NAME, "fh-keeper-plai", "sh" };
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                struct family f = family_make(names[i], false, 2);
                eq_int(find(f.last, (struct lineage_roots){ .spawner = f.spawner }), LINEAGE_SANDBOXED);
                family_end(&f);
        }
}

TEST(a_name_is_not_believed_of_who_comes_out_of_a_sandbox)
{
        struct family f = family_make(KEEPER_PLAIN_NAME, true, 2);
        eq_int(find(f.last, (struct lineage_roots){ .spawner = f.spawner }), LINEAGE_SANDBOXED);
        family_end(&f);
}

TEST(others_are_no_commands)
{
        struct family f = family_make("sh", false, 2);
        eq_int(find(getppid(), (struct lineage_roots){ .spawner = f.spawner }), LINEAGE_OTHER);
        eq_int(find(1, (struct lineage_roots){ .spawner = f.spawner }), LINEAGE_OTHER);
        /* A child of the server that is not its spawner counts as one that existed before the server. */
        eq_int(find(f.last, (struct lineage_roots){ .spawner = 0 }), LINEAGE_OTHER);
        eq_int(find(f.spawner, (struct lineage_roots){ .spawner = 0 }), LINEAGE_OTHER);
        /* The answer is unknown when a command may have left the child as an orphan, or when the child is known to be no client. */
        eq_int(find(f.last, (struct lineage_roots){ .has_orphans = true }), LINEAGE_UNKNOWN);
        eq_int(find(f.last, (struct lineage_roots){ .others = { f.spawner } }), LINEAGE_UNKNOWN);
        eq_int(find(getpid(), (struct lineage_roots){ .spawner = 0 }), LINEAGE_UNKNOWN);
        family_end(&f);
}

TEST(what_descends_from_the_keeper_of_another_server_is_told_by_its_name)
{
        static const char *const names[] = { KEEPER_NAME, KEEPER_PREBUILT_NAME };
        struct family f;
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                f = family_make(names[i], false, 2);
                eq_int(find(f.last, (struct lineage_roots){ .spawner = 0 }), LINEAGE_SANDBOXED);
                family_end(&f);
        }
        f = family_make(KEEPER_PLAIN_NAME, false, 2);
        eq_int(find(f.last, (struct lineage_roots){ .spawner = 0 }), LINEAGE_OTHER);
        family_end(&f);
}

/* The server and its client are in the same sandbox. */
TEST(a_keeper_that_we_are_below_ourselves_is_no_matter)
{
        pid_t keeper = fork();
        if (keeper == 0) {
                keeper_begin(KEEPER_NAME, false);
                pid_t client = fork();
                if (client == 0) {
                        (void)pause();
                        _exit(0);
                }
                pid_t server = fork();
                if (server == 0)
                        _exit(find(client, (struct lineage_roots){ 0 }) == LINEAGE_OTHER ? 0 : 1);
                int status = 1;
                (void)waitpid(server, &status, 0);
                (void)kill(client, SIGKILL);
                _exit(status != 0);
        }
        int status;
        eq_int(waitpid(keeper, &status, 0), keeper);
        eq_int(status, 0);
}

TEST(who_has_too_many_ancestors_cannot_be_told)
{
        struct family f = family_make(KEEPER_PLAIN_NAME, false, LINEAGE_DEPTH_MAX + 1);
        eq_int(find(f.last, (struct lineage_roots){ .spawner = f.spawner }), LINEAGE_UNKNOWN);
        family_end(&f);
}

TEST(who_is_gone_cannot_be_told)
{
        pid_t pid = fork();
        if (pid == 0)
                _exit(0);
        _close_ int dir = dir_of(pid);
        ok(dir >= 0);
        eq_int(waitpid(pid, NULL, 0), pid);
        const struct lineage_roots roots = { .server = getpid() };
        eq_int(lineage_find(pid, dir, &roots), LINEAGE_UNKNOWN);
}

/* The child of the keeper makes another child and ends at once: the parents change while the walk goes up. */
static NORETURN void keeper_churn(int told, int next)
{
        char c;
        keeper_begin(KEEPER_NAME, false);
        while (read(next, &c, 1) == 1) {
                pid_t middle = fork();
                if (middle == 0) {
                        pid_t last = fork_and_tell(told, 1);
                        if (last == 0 &&
                            read(next, &c, 1) >= 0) /* waits until the test has examined this process */
                                _exit(0);
                        _exit(0);
                }
                while (wait(NULL) > 0)
                        continue;
        }
        _exit(0);
}

TEST(who_changes_its_parent_meanwhile_stays_sandboxed)
{
        int told[2], next[2];
        eq_int(pipe2(told, O_CLOEXEC), 0);
        eq_int(pipe2(next, O_CLOEXEC), 0);
        pid_t spawner = fork();
        if (spawner == 0) {
                fd_close(next[1]);
                if (fork() == 0)
                        keeper_churn(told[1], next[0]);
                fd_close(next[0]);
                while (wait(NULL) > 0)
                        continue;
                _exit(0);
        }
        fd_close(next[0]);
        fd_close(told[1]);
        size_t told_apart = 0;
        for (int i = 0; i < ROUNDS; i++) {
                pid_t pids[2];
                eq_int(write(next[1], "x", 1), 1);
                hear(told[0], pids);
                enum lineage found = find(pids[1], (struct lineage_roots){ .spawner = spawner });
                ok(found == LINEAGE_SANDBOXED || found == LINEAGE_UNKNOWN);
                told_apart += found == LINEAGE_SANDBOXED;
                eq_int(write(next[1], "x", 1), 1);
        }
        ok(told_apart > ROUNDS / 2);
        fd_close(next[1]);
        fd_close(told[0]);
        eq_int(waitpid(spawner, NULL, 0), spawner);
}

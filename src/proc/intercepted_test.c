/* intercepted_test: commands whose starts of programs a broker decides, with a simple broker in the place of the real one: who is asked
 * about, what is counted, and what becomes of the tree when the broker is gone. */
#include "unit.h"

#include "proc/sandboxed_rig.h"

#include "base/fatal.h"
#include "base/fd.h"
#include "base/sys.h"
#include "keeper/broker_start.h"
#include "keeper/cgroup.h"
#include "keeper/intercepted.h"
#include "keeper/keeper_shared.h"
#include "sandbox/exec_notify.h"

#include <grp.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

#define STRANGER 58341 /* a user that owns nothing */
#define LOG_BYTES 4096

/* ---- the broker ---- */

/* What the configuration says: what happens when `program` is to be started; every other program is. */
struct wish {
        enum wish_kind { REFUSE, DIE, LEAVE, ESCAPE, KILL_TRACED } what;
        char program[64];
};

/* Reads the path from the memory of the process, as the real broker does. */
static bool path_read(const struct seccomp_notif *n, char ret[static 256])
{
        char mem[64];
        (void)snprintf(mem, sizeof(mem), "/proc/%d/mem", (int)n->pid);
        _close_ int fd = open(mem, O_RDONLY | O_CLOEXEC);
        uint64_t at = n->data.args[n->data.nr == SYS_execveat];
        ssize_t got = fd < 0 ? -1 : pread(fd, ret, 255, (off_t)at);
        if (got <= 0)
                return false;
        ret[got] = 0;
        return true;
}

static void answer(int listener, uint64_t id, int os_errno)
{
        struct seccomp_notif_resp r = { .id = id, .error = -os_errno };
        if (os_errno == 0)
                r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

/* Runs a command of the broker's own, which outlives the process that asked. It ends when the test says so on the socket. It counts
 * before the process that asked gets its answer: that may be the last one of the tree. */
static void escape(const struct broker_start *b, const struct seccomp_notif *n)
{
        struct keeper *k = b->keeper;
        char byte;
        atomic_fetch_add(&k->broker_children, 1);
        atomic_fetch_add(&k->escalated, 1);
        answer(b->listener, n->id, EACCES);
        pid_t pid = sys_fork();
        if (pid == 0) {
                (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)sys_write(b->socket, "outside\n", 8);
                sys_exit(sys_read(b->socket, &byte, 1) == 1 ? 0 : 1);
        }
        int status = -1;
        (void)sys_wait4(pid, &status, 0, NULL);
        if (status == 0)
                (void)sys_write(b->socket, "reaped\n", 7);
        atomic_fetch_sub(&k->broker_children, 1);
        (void)sys_kill(sys_getpid(), KEEPER_LOOK);
}

/* Traces the process, as the real broker does where it ends one, and kills it. Its end must reach its parent all the same. */
static void kill_traced(const struct broker_start *b, const struct seccomp_notif *n)
{
        pid_t pid = (pid_t)n->pid;
        int status = 0;
        char byte;
        must(ptrace(PTRACE_SEIZE, pid, NULL, 0L) == 0);
        must(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0);
        answer(b->listener, n->id, EACCES);
        must(intercepted_tracee_wait(pid, &status, 0) == pid);
        must(status >> 16 == PTRACE_EVENT_STOP);
        must(intercepted_tracee_wait(pid, &status, WNOHANG) == 0);
        (void)sys_write(b->socket, "stopped\n", 8);
        (void)sys_read(b->socket, &byte, 1);
        (void)sys_kill(pid, SIGKILL);
        pid_t r;
        do
                r = intercepted_tracee_wait(pid, &status, 0);
        while (r == pid); /* the stop of its last moment */
        (void)dprintf(b->socket, "%s\n", r == -ECHILD ? "ended" : "?");
}

/* Returns false when the broker is to end. */
static bool decide(const struct broker_start *b, const struct wish *w, const struct seccomp_notif *n)
{
        char path[256] = "?";
        if (!path_read(n, path))
                (void)snprintf(path, sizeof(path), "unreadable: %s", strerror(errno));
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
        bool is_wished = strcmp(name, w->program) == 0;
        (void)dprintf(b->socket, "%s\n", name);
        if (is_wished && w->what == DIE)
                (void)kill(getpid(), SIGKILL);
        if (is_wished && w->what == LEAVE)
                return false;
        if (is_wished && w->what == REFUSE) {
                atomic_fetch_add(&b->keeper->denied, 1);
                answer(b->listener, n->id, EACCES);
                return true;
        }
        if (is_wished && w->what == ESCAPE) {
                escape(b, n);
                return true;
        }
        if (is_wished && w->what == KILL_TRACED) {
                kill_traced(b, n);
                return true;
        }
        atomic_fetch_add(&b->keeper->run, 1);
        answer(b->listener, n->id, 0);
        return true;
}

static void *broker(void *arg)
{
        struct broker_start *given = arg, b = *given;
        struct wish w = { .what = REFUSE };
        free(given);
        must(pread(b.config, &w, sizeof(w), 0) == sizeof(w));
        for (bool goes_on = true; goes_on;) {
                struct pollfd p = { .fd = b.listener, .events = POLLIN };
                struct seccomp_notif n = { 0 };
                if (poll(&p, 1, -1) < 0 || !(p.revents & POLLIN))
                        break;
                if (ioctl(b.listener, SECCOMP_IOCTL_NOTIF_RECV, &n) == 0)
                        goes_on = decide(&b, &w, &n);
        }
        close(b.config);
        close(b.listener);
        close(b.socket);
        return NULL;
}

/* ---- the rig ---- */

struct intercepted {
        struct rigged b;
        int socket; /* the test's end */
        char log[LOG_BYTES];
};

/* Skips the test where the kernel has no filter that asks. */
static void or_skip(void)
{
        skip_in_valgrind("knows no listener");
        static int known = -1;
        if (known < 0) {
                int status;
                pid_t pid = fork();
                ok(pid >= 0);
                if (pid == 0) {
                        struct exec_cookie cookie = { { 1, 2, 3 } };
                        int r = exec_notify_install(&cookie);
                        _exit(r < 0 ? -r : 0);
                }
                eq_int(waitpid(pid, &status, 0), pid);
                known = WEXITSTATUS(status);
        }
        if (known == 0)
                return;
        print_message("skipped: no listener here: %s\n", strerror(known));
        skip();
}

static void begin(struct intercepted *t, enum wish_kind what, const char *program)
{
        or_skip();
        struct wish w = { .what = what };
        int ends[2];
        (void)snprintf(w.program, sizeof(w.program), "%s", program);
        spawn_set_broker(broker);
        rigged_open_workspace(&t->b);
        struct rig *rig = &t->b.rig;
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        t->socket = ends[0];
        rig->is_intercepted = true;
        rig->socket = ends[1];
        rig->config = memfd_create("wish", MFD_CLOEXEC);
        ok(rig->config >= 0);
        eq_int(fd_write_all(rig->config, slice_from(&w, sizeof(w))), 0);
}

/* Starts the script as command 1, in the sandbox that the rig has or in none. */
static void start(struct intercepted *t, bool is_sandboxed, const char *script)
{
        struct rig *rig = &t->b.rig;
        if (is_sandboxed)
                rigged_start(&t->b, 1, script);
        else
                rig_start_sh(rig, 1, script);
        rig_wait(rig, rig->seen[1].has_started || rig->seen[1].has_failed);
        close(rig->config);
        close(rig->socket);
        if (rig->seen[1].has_failed)
                fail_msg("start failed at %s: %s", rig->seen[1].step, strerror(rig->seen[1].os_errno));
}

static bool log_wait(struct intercepted *t, const char *text)
{
        size_t n = strlen(t->log);
        while (!text || !strstr(t->log, text)) {
                struct pollfd p = { .fd = t->socket, .events = POLLIN };
                eq_int(poll(&p, 1, RIG_PATIENCE_MS), 1);
                ssize_t r = read(t->socket, t->log + n, sizeof(t->log) - 1 - n);
                if (r <= 0)
                        return false;
                t->log[n += (size_t)r] = 0;
        }
        return true;
}

/* Waits for the end of the tree, and closes the rig. The whole log and the whole output are there then. */
static struct rig_seen finish(struct intercepted *t)
{
        struct rig *rig = &t->b.rig;
        rig_wait(rig, rig->seen[1].has_gone);
        rig_output_close(rig);
        rig_read(rig, t->b.out, sizeof(t->b.out), NULL);
        ok(!log_wait(t, NULL));
        close(t->socket);
        struct rig_seen seen = rig->seen[1];
        rigged_close(&t->b);
        return seen;
}

/* ---- as another user ---- */

static void run_as(uid_t uid, const char *name, void (*body)(void **state))
{
        const struct CMUnitTest one = { .name = name, .test_func = body };
        int status;
        fflush(stdout);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                eq_int(setgroups(0, NULL), 0);
                eq_int(setresgid(uid, uid, uid), 0);
                eq_int(setresuid(uid, uid, uid), 0);
                eq_int(prctl(PR_SET_DUMPABLE, 1), 0); /* so that the server owns its files in /proc */
                int failed = _cmocka_run_group_tests("as a user", &one, 1, NULL, NULL);
                fflush(stdout);
                _exit(failed);
        }
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

static void as_user(const char *name, void (*body)(void **state))
{
        if (geteuid() == 0)
                run_as(STRANGER, name, body);
}

/* A test that is run as the user of the tests, and, where that is root, as another user, too. */
#define TEST_AS_BOTH(name)                     \
        static void name##_body(void **state); \
        TEST(name)                             \
        {                                      \
                as_user(#name, name##_body);   \
                name##_body(NULL);             \
        }                                      \
        static void name##_body(UNUSED void **state)

/* ---- the tests ---- */

/* `true` is built in; the shell itself is the first program, about which nobody is asked. */
#define SCRIPT "/bin/echo one; true; /usr/bin/env /bin/echo two; exit 3"

static void is_asked_about_all_but_the_first(struct intercepted *t, bool is_sandboxed)
{
        start(t, is_sandboxed, SCRIPT);
        struct rig_seen seen = finish(t);
        eq_str(t->log, "echo\nenv\necho\n");
        eq_str(t->b.out, "one\ntwo\n");
        eq_int(WEXITSTATUS(seen.exit.status), 3);
        eq_u64(seen.exit.intercepted.run, 3);
        eq_u64(seen.exit.intercepted.escalated, 0);
        eq_u64(seen.exit.intercepted.denied, 0);
}

static void is_refused_what_the_broker_refuses(struct intercepted *t, bool is_sandboxed)
{
        start(t, is_sandboxed, "/bin/echo one; /usr/bin/env true || exit 4");
        struct rig_seen seen = finish(t);
        eq_str(t->log, "echo\nenv\n");
        ok(strstr(t->b.out, "one\n") == t->b.out);
        eq_int(WEXITSTATUS(seen.exit.status), 4);
        eq_u64(seen.exit.intercepted.run, 1);
        eq_u64(seen.exit.intercepted.denied, 1);
}

TEST_AS_BOTH(a_broker_is_asked_about_all_programs_but_the_first)
{
        struct intercepted t = { 0 };
        begin(&t, REFUSE, "none");
        is_asked_about_all_but_the_first(&t, false);

        t = (struct intercepted){ 0 };
        begin(&t, REFUSE, "env");
        is_refused_what_the_broker_refuses(&t, false);
}

TEST_AS_BOTH(a_broker_is_asked_inside_of_namespaces)
{
        rigged_or_skip();
        struct intercepted t = { 0 };
        begin(&t, REFUSE, "none");
        is_asked_about_all_but_the_first(&t, true);

        t = (struct intercepted){ 0 };
        begin(&t, REFUSE, "env");
        is_refused_what_the_broker_refuses(&t, true);
}

static void use_landlock(struct intercepted *t)
{
        t->b.count = 0; /* files are as on the machine: no rule of Landlock is needed for them */
        t->b.backend = BACKEND_LANDLOCK;
}

TEST_AS_BOTH(a_broker_is_asked_with_landlock_alone)
{
        struct intercepted t = { 0 };
        if (landlock_abi() < LANDLOCK_ALONE_ABI)
                skip();
        begin(&t, REFUSE, "none");
        use_landlock(&t);
        is_asked_about_all_but_the_first(&t, true);

        t = (struct intercepted){ 0 };
        begin(&t, REFUSE, "env");
        use_landlock(&t);
        is_refused_what_the_broker_refuses(&t, true);
}

TEST_AS_BOTH(a_broker_is_asked_inside_of_bubblewrap)
{
        struct bwrap bwrap;
        struct err err = ERR_INIT;
        rigged_or_skip();
        if (bwrap_find("/usr/local/bin:/usr/bin:/bin", S("/"), &bwrap, &err) < 0 ||
            bwrap_test(&bwrap, &err) < 0) {
                print_message("skipped: %s\n", err.text);
                skip();
        }
        struct intercepted t = { 0 };
        begin(&t, REFUSE, "none");
        t.b.backend = BACKEND_BUBBLEWRAP;
        t.b.bwrap = &bwrap;
        is_asked_about_all_but_the_first(&t, true);

        t = (struct intercepted){ 0 };
        begin(&t, REFUSE, "env");
        t.b.backend = BACKEND_BUBBLEWRAP;
        t.b.bwrap = &bwrap;
        is_refused_what_the_broker_refuses(&t, true);
        bwrap_release(&bwrap);
}

/* Nothing runs undecided: no program is started any more, and what runs already is ended. Until then the shell may go on. */
static void ends_with_its_broker(bool is_sandboxed)
{
        struct intercepted t = { 0 };
        begin(&t, DIE, "true");
        start(&t, is_sandboxed,
              "(setsid sleep 1000 &) ; read x < /dev/null; /bin/echo ready; /bin/true; /bin/echo me; sleep "
              "1000");
        struct rig_seen seen = finish(&t);
        ok(strstr(t.log, "true\n"));
        ok(strstr(t.b.out, "ready\n") == t.b.out);
        ok(!strstr(t.b.out, "me\n"));
        ok(!seen.has_exited || WIFSIGNALED(seen.exit.status));
}

TEST_AS_BOTH(the_tree_ends_with_its_broker)
{
        ends_with_its_broker(false);
}

TEST_AS_BOTH(a_sandbox_ends_with_its_broker)
{
        rigged_or_skip();
        ends_with_its_broker(true);
}

TEST_AS_BOTH(nothing_can_be_started_once_the_broker_has_left)
{
        struct intercepted t = { 0 };
        begin(&t, LEAVE, "true");
        start(&t, false, "/bin/true; /bin/echo no; /bin/echo neither; echo end");
        struct rig_seen seen = finish(&t);
        eq_str(t.log, "true\n");
        ok(strstr(t.b.out, "end\n"));
        ok(!strstr(t.b.out, "no\n"));
        eq_int(seen.exit.status, 0);
}

TEST_AS_BOTH(the_tree_ends_only_with_what_the_broker_runs_outside)
{
        struct intercepted t = { 0 };
        begin(&t, ESCAPE, "true");
        start(&t, false, "(/bin/true &) ; exit 5");
        struct rig *rig = &t.b.rig;
        ok(log_wait(&t, "outside\n"));
        rig_wait(rig, rig->seen[1].has_exited);
        eq_int(WEXITSTATUS(rig->seen[1].exit.status), 5);
        ok(!rig->seen[1].has_gone);
        eq_int(write(t.socket, "", 1), 1);
        ok(log_wait(&t, "reaped\n"));
        (void)finish(&t);
}

TEST_AS_BOTH(what_the_broker_runs_outside_is_killed_with_the_tree)
{
        struct intercepted t = { 0 };
        begin(&t, ESCAPE, "true");
        start(&t, false, "/bin/true; sleep 1000");
        ok(log_wait(&t, "outside\n"));
        spawn_kill(t.b.rig.s, 1);
        struct rig_seen seen = finish(&t);
        ok(WIFSIGNALED(seen.exit.status));
        ok(!strstr(t.log, "reaped\n"));
}

/* The broker traces the command's first process. Without a sandbox, that is a child of the keeper: the keeper must neither take the stop
 * for an exit nor lose the exit to the broker. In a sandbox it is a child of the init, which hears of the exit when the broker has
 * reaped it. Meanwhile other children of the same parent end, and are reaped. */
static void is_killed_while_traced(bool is_sandboxed)
{
        struct intercepted t = { 0 };
        begin(&t, KILL_TRACED, "true");
        start(&t, is_sandboxed, "(/bin/sleep 0.1 &) ; exec /bin/true");
        struct rig *rig = &t.b.rig;
        ok(log_wait(&t, "stopped\n"));
        spawn_signal(rig->s, 1, 0, SPAWN_GROUP);
        rig_wait(rig, rig->seen[1].signalled == 1);
        eq_int(rig->seen[1].signal_errno, 0);
        ok(!rig->seen[1].has_exited);
        eq_int(write(t.socket, "", 1), 1);
        ok(log_wait(&t, "ended\n"));
        struct rig_seen seen = finish(&t);
        ok(seen.has_exited && WIFSIGNALED(seen.exit.status));
        eq_int(WTERMSIG(seen.exit.status), SIGKILL);
}

TEST_AS_BOTH(a_command_that_dies_while_it_is_traced_is_reported)
{
        is_killed_while_traced(false);
}

TEST_AS_BOTH(a_command_in_a_sandbox_that_dies_while_it_is_traced_is_reported)
{
        rigged_or_skip();
        is_killed_while_traced(true);
}

TEST(without_a_broker_no_command_is_started)
{
        struct intercepted t = { 0 };
        begin(&t, REFUSE, "none");
        struct rig *rig = &t.b.rig;
        rig_close(rig);
        spawn_set_broker(NULL);
        int config = rig->config, theirs = rig->socket;
        rig_open(rig);
        rig->is_intercepted = true;
        rig->config = config;
        rig->socket = theirs;
        rig_start_sh(rig, 1, "echo not me");
        rig_wait(rig, rig->seen[1].has_gone);
        ok(rig->seen[1].has_failed);
        eq_str(rig->seen[1].step, "intercept");
        eq_int(rig->seen[1].os_errno, ENOSYS);
        close(config);
        close(theirs);
        struct rig_seen seen = finish(&t);
        eq_str(t.b.out, "");
        ok(!seen.has_started);
}

/* The start of a program that would run for long: it must have failed at `intercept`, and be gone. */
static void start_fails(struct intercepted *t, int os_errno)
{
        const char *const argv[] = { "sleep", "1000", NULL }, *const candidates[] = { "/bin/sleep", NULL };
        struct rig *rig = &t->b.rig;
        const struct rig_seen *seen = &rig->seen[1];
        eq_int(rig_start_argv(rig, 1, argv, candidates, "/"), 0);
        rig_wait(rig, seen->has_gone);
        ok(seen->has_failed && !seen->has_started);
        eq_str(seen->step, "intercept");
        eq_int(seen->os_errno, os_errno);
        close(rig->config);
        close(rig->socket);
        (void)finish(t);
        eq_str(t->log, "");
}

/* Room for the test, the spawner, the keeper and its command, and not for a thread. */
static void no_thread_body(UNUSED void **state)
{
        struct intercepted t = { 0 };
        const struct rlimit four = { .rlim_cur = 4, .rlim_max = 4 };
        begin(&t, REFUSE, "none");
        eq_int(prlimit(t.b.rig.spawner_pid, RLIMIT_NPROC, &four, NULL), 0);
        start_fails(&t, EAGAIN);
}

TEST(a_command_whose_broker_gets_no_thread_is_killed_and_has_failed)
{
        if (geteuid() != 0)
                skip(); /* other processes of this user count as well */
        or_skip();
        run_as(STRANGER + 1 + (uid_t)getpid() % 100000, "no thread", no_thread_body);
}

/* In a process of its own, because a filter stays. */
static void second_listener_body(UNUSED void **state)
{
        struct intercepted t = { 0 };
        struct exec_cookie cookie = { { 1, 2, 3 } };
        int first = exec_notify_install(&cookie);
        ok(first >= 0);
        begin(&t, REFUSE, "none");
        start_fails(&t, EBUSY);
        close(first);
}

TEST(below_another_filter_with_a_listener_the_start_is_refused)
{
        or_skip();
        run_as(geteuid(), "second listener", second_listener_body);
}

TEST_AS_BOTH(a_program_that_is_not_there_fails_the_start_as_ever)
{
        struct intercepted t = { 0 };
        begin(&t, REFUSE, "none");
        struct rig *rig = &t.b.rig;
        rig_start(rig, 1, "/nonexistent");
        rig_wait(rig, rig->seen[1].has_gone);
        eq_str(rig->seen[1].step, "exec");
        eq_int(rig->seen[1].os_errno, ENOENT);
        close(rig->config);
        close(rig->socket);
        (void)finish(&t);
        eq_str(t.log, "");
}

/* limits.processes counts threads, too, and is kept by the cgroup: the command is in it, and both threads of the keeper are not. When
 * the first program that is asked about has run, there is the second thread. */
TEST(a_broker_is_not_in_the_cgroup_of_its_command)
{
        struct intercepted t = { 0 };
        struct cgroup c;
        char leaf[64];
        begin(&t, REFUSE, "none");
        struct rig *rig = &t.b.rig;
        if (cgroup_open(&c) < 0) {
                rig_close(rig);
                skip();
        }
        cgroup_close(&c);
        rig->wants_cgroup = true;
        (void)snprintf(leaf, sizeof(leaf), "farhand-%d/1\n", (int)rig->spawner_pid);
        start(&t, false, "/bin/true; exec /bin/cat /proc/self/cgroup /proc/$PPID/task/*/cgroup");
        struct rig_seen seen = finish(&t);
        eq_int(seen.exit.status, 0);
        int lines = 0, leaves = 0;
        for (const char *at = t.b.out; (at = strstr(at, "0::")); at++)
                lines++;
        for (const char *at = t.b.out; (at = strstr(at, leaf)); at++)
                leaves++;
        eq_int(lines, 3);
        eq_int(leaves, 1);
        ok(strstr(t.b.out, leaf) < strstr(strstr(t.b.out, "0::") + 1, "0::"));
}

/* The keeper is a fork for such a command only, and other commands have no filter. */
TEST(other_commands_are_not_touched)
{
        struct intercepted t = { 0 };
        begin(&t, REFUSE, "echo");
        struct rig *rig = &t.b.rig;
        rig->is_intercepted = false;
        rig_start_sh(rig, 2, "/bin/echo plain");
        rig_wait(rig, rig->seen[2].has_gone);
        eq_int(rig->seen[2].exit.status, 0);
        eq_u64(rig->seen[2].exit.intercepted.run, 0);
        rig->is_intercepted = true;
        start(&t, false, "/bin/echo refused");
        struct rig_seen seen = finish(&t);
        eq_int(WEXITSTATUS(seen.exit.status), 126);
        eq_str(t.log, "echo\n");
}

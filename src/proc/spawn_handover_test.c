/* spawn_handover_test: orders while the kernel passes no descriptors on (ETOOMANYREFS): which orders are sent with lent
 * descriptors, which wait, which overtake others, and when starts fail. */
#include "unit.h"

#include "proc/spawn_rig.h"

#include "base/limits.h"
#include "keeper/lend.h"
#include "proc/pty.h"

#include <grp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define FIRST_UID 57000 /* the first of UIDS: tests that run at the same time have different users */
#define UIDS 1000
#define OPEN_FILES 300
#define PER_MESSAGE 253 /* descriptors; the kernel takes no more in one message */
#define TEXT_BYTES 4096

/* ---- a user with too many descriptors in flight ---- */

/* Becomes a user that no other test has. The kernel counts descriptors in flight for all processes of a user together, and does
 * not limit root. */
static void user_become(void)
{
        const struct rlimit files = { .rlim_cur = OPEN_FILES, .rlim_max = OPEN_FILES };
        eq_int(setrlimit(RLIMIT_NOFILE, &files), 0);
        if (geteuid() != 0)
                return;
        uid_t uid = FIRST_UID + (uid_t)getpid() % UIDS;
        eq_int(setgroups(0, NULL), 0);
        eq_int(setresgid(uid, uid, uid), 0);
        eq_int(setresuid(uid, uid, uid), 0);
        eq_int(prctl(PR_SET_DUMPABLE, 1), 0);
}

/* A process cannot undo a change of its user or its limit, so each test runs in a process of its own. */
static void run_as_user(const char *name, void (*body)(void **state))
{
        skip_in_valgrind("does not let a process lower its limit on descriptors");
        const struct CMUnitTest one = { .name = name, .test_func = body };
        fflush(stdout);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                int failed = _cmocka_run_group_tests("as a user", &one, 1, NULL, NULL);
                fflush(stdout);
                _exit(failed);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

#define TEST_AS_USER(name)                       \
        static void name##_body(void **state);   \
        TEST(name)                               \
        {                                        \
                run_as_user(#name, name##_body); \
        }                                        \
        static void name##_body(UNUSED void **state)

struct flood {
        int ends[2];
};

static void flood_add(const struct flood *f)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(PER_MESSAGE * sizeof(int))] = { 0 };
        char byte = 0;
        struct iovec part = { &byte, 1 };
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(PER_MESSAGE * sizeof(int));
        for (size_t i = 0; i < PER_MESSAGE; i++)
                memcpy(CMSG_DATA(c) + i * sizeof(int), &f->ends[0], sizeof(int));
        eq_int(sendmsg(f->ends[0], &m, 0), 1);
}

/* Sends two messages: one stays below the limit, two exceed it. */
static void flood_begin(struct flood *f)
{
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->ends), 0);
        flood_add(f);
        flood_add(f);
}

/* Reads the messages without room for their descriptors, so that the kernel closes these. */
static void flood_end(struct flood *f)
{
        char byte;
        eq_int(read(f->ends[1], &byte, 1), 1);
        eq_int(read(f->ends[1], &byte, 1), 1);
        close(f->ends[0]);
        close(f->ends[1]);
}

static void open_flooded(struct rig *rig, struct flood *f)
{
        user_become();
        rig_open(rig);
        rig_start_sh(rig, 1, "exec sleep 1000");
        rig_wait(rig, rig->seen[1].has_started);
        flood_begin(f);
}

/* Opens a rig in which commands have a socket as their stdin, which cannot be lent. */
static void open_refused(struct rig *rig, struct flood *f)
{
        int ends[2];
        open_flooded(rig, f);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        eq_int(dup3(ends[0], rig->null, O_CLOEXEC), rig->null);
        close(ends[0]);
        close(ends[1]);
}

static void close_flooded(struct rig *rig, struct flood *f)
{
        flood_end(f);
        rig_start_sh(rig, 100, "exit 3");
        rig_wait(rig, rig->seen[100].has_gone);
        eq_int(rig->seen[100].exit.status, 3 << 8);
        rig_close(rig);
}

/* ---- starts with lent descriptors ---- */

TEST_AS_USER(starts_go_on_while_descriptors_are_refused)
{
        struct rig rig;
        struct flood f;
        static char word[100001];
        memset(word, 'x', sizeof(word) - 1);
        open_flooded(&rig, &f);
        size_t own = rig_count_fds(getpid()), spawners = rig_count_fds(rig.spawner_pid);
        const char *const large[] = { "sh", "-c", "echo ${#1}", "sh", word, NULL };
        const char *const candidates[] = { "/bin/sh", NULL };
        char text[TEXT_BYTES] = "";
        for (uint32_t i = 2; i < 22; i++)
                rig_start_sh(&rig, i, "read x; exit 7");
        eq_int(rig_start_argv(&rig, 22, large, candidates, "/"),
               0); /* the strings of so large an order are in a memfd */
        rig_start(&rig, 23, "/nonexistent/program");
        rig_wait(&rig, rig.gone == 22);
        for (uint32_t i = 2; i < 22; i++)
                eq_int(rig.seen[i].exit.status, 7 << 8);
        rig_read(&rig, text, sizeof(text), "\n");
        eq_str(text, "100000\n");
        eq_str(rig.seen[23].step, "exec");
        eq_u64(rig_count_fds(getpid()), own);
        eq_u64(rig_count_fds(rig.spawner_pid), spawners);
        close_flooded(&rig, &f);
}

TEST_AS_USER(a_lent_start_is_signalled_and_killed_as_any_other)
{
        struct rig rig;
        struct flood f;
        open_flooded(&rig, &f);
        for (uint32_t i = 2; i < 22; i++) {
                rig_start_sh(&rig, i, "exec sleep 1000");
                spawn_signal(rig.s, i, i % 2 ? SIGTERM : SIGCONT, SPAWN_PROCESS);
                if (i % 4 == 0)
                        spawn_kill(rig.s, i);
        }
        for (uint32_t i = 2; i < 22; i++)
                rig_wait(&rig, rig.seen[i].signalled == 1);
        for (uint32_t i = 2; i < 22; i++)
                spawn_kill(rig.s, i);
        rig_wait(&rig, rig.gone == 20);
        for (uint32_t i = 2; i < 22; i++) {
                eq_int(rig.seen[i].signalled, 1);
                if (i % 4)
                        eq_int(WTERMSIG(rig.seen[i].exit.status), i % 2 ? SIGTERM : SIGKILL);
                else if (rig.seen[i].has_failed)
                        eq_int(rig.seen[i].os_errno, ECANCELED);
        }
        close_flooded(&rig, &f);
}

/* The output ends when the command ends, so no other process holds the pipe. */
TEST_AS_USER(a_lent_pipe_is_held_by_the_command_alone)
{
        struct rig rig;
        struct flood f;
        open_flooded(&rig, &f);
        rig_start_sh(&rig, 2, "echo said; exec sleep 1000");
        rig_wait(&rig, rig.seen[2].has_started);
        rig_output_close(&rig);
        spawn_kill(rig.s, 1);
        char text[TEXT_BYTES] = "";
        rig_read(&rig, text, sizeof(text), "\n");
        spawn_kill(rig.s, 2);
        rig_wait(&rig, rig.gone == 2);
        rig_read(&rig, text, sizeof(text), NULL);
        eq_str(text, "");
        flood_end(&f);
        rig_close(&rig);
}

TEST_AS_USER(a_terminal_can_be_lent)
{
        struct rig rig;
        struct flood f;
        open_flooded(&rig, &f);
        int master, slave;
        eq_int(pty_open(24, 80, &master, &slave), 0);
        const char *const argv[] = { "sh", "-c", "stty size < /dev/tty; echo hello >&2", NULL };
        const char *const candidates[] = { "/bin/sh", NULL }, *const env[] = { NULL };
        const struct command_spec command = {
                .argv = argv,
                .env = env,
                .candidates = candidates,
                .cwd = "/",
                .is_tty = true,
        };
        const int stdio[] = { slave, slave, slave };
        eq_int(spawn_start(rig.s, 2, &command, stdio), 0);
        close(slave);
        rig_wait(&rig, rig.seen[2].has_gone);
        eq_int(rig.seen[2].exit.status, 0);
        char text[TEXT_BYTES] = "";
        for (size_t n = 0; !strstr(text, "hello");) {
                ssize_t r = read(master, text + n, sizeof(text) - 1 - n);
                ok(r > 0);
                n += (size_t)r;
        }
        eq_str(text, "24 80\r\nhello\r\n");
        close(master);
        close_flooded(&rig, &f);
}

/* The spawner may not read /proc/PID of the server here. */
TEST_AS_USER(what_cannot_be_taken_comes_back_and_waits)
{
        struct rig rig;
        struct flood f;
        open_flooded(&rig, &f);
        if (geteuid() == 0)
                skip();
        eq_int(prctl(PR_SET_DUMPABLE, 0), 0);
        uint64_t begun_ms = clock_mono_ms();
        rig_start_sh(&rig, 2, "exit 7");
        rig_start_sh(&rig, 3, "exit 8");
        spawn_signal(rig.s, 2, SIGCONT, SPAWN_PROCESS);
        spawn_kill(rig.s, 3);
        rig_wait(&rig, rig.seen[3].has_gone);
        eq_str(rig.seen[3].step, "fork");
        eq_int(rig.seen[3].os_errno, ECANCELED);
        rig_wait(&rig, rig.seen[2].has_gone);
        ok(clock_mono_ms() - begun_ms >= LIMIT_HANDOVER_MS);
        eq_str(rig.seen[2].step, "descriptors");
        eq_int(rig.seen[2].os_errno, ETOOMANYREFS);
        eq_int(rig.seen[2].signalled, 1);
        close_flooded(&rig, &f);
}

TEST_AS_USER(only_pipes_terminals_and_nothing_can_be_lent)
{
        user_become();
        struct lent lent;
        int ends[2], master, slave;
        char path[] = "/tmp/handover_test_XXXXXX";
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        int file = mkostemp(path, O_CLOEXEC);
        ok(null >= 0 && zero >= 0 && file >= 0);
        eq_int(unlink(path), 0);
        eq_int(mkfifo(path, 0600), 0);
        int fifo = open(path, O_RDWR | O_CLOEXEC);
        ok(fifo >= 0);
        eq_int(unlink(path), 0);
        eq_int(pty_open(24, 80, &master, &slave), 0);
        eq_int(lend_describe(null, LEND_STDIO, &lent), 0);
        eq_int(lend_describe(slave, LEND_STDIO, &lent), 0);
        eq_int(lend_describe(zero, LEND_STDIO, &lent), -EINVAL);
        eq_int(lend_describe(file, LEND_STDIO, &lent), -EINVAL);
        eq_int(lend_describe(fifo, LEND_STDIO, &lent), -EINVAL);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        eq_int(lend_describe(ends[0], LEND_STDIO, &lent), -EINVAL);
        eq_int(lend_describe(-1, LEND_STDIO, &lent), -EBADF);

        eq_int(pipe2(ends, O_CLOEXEC), 0);
        eq_int(lend_describe(ends[1], LEND_STDIO, &lent), 0);
        int taken = lend_take(getpid(), &lent);
        ok(taken >= 0);
        eq_int(fcntl(taken, F_GETFL) & O_ACCMODE, O_WRONLY);
        eq_int(fcntl(taken, F_GETFD), FD_CLOEXEC);
        eq_int(write(taken, "x", 1), 1);
        char byte;
        eq_int(read(ends[0], &byte, 1), 1);
        lent.ino++;
        eq_int(lend_take(getpid(), &lent), -ESTALE);
        lent.fd = 250;
        eq_int(lend_take(getpid(), &lent), -ENOENT);
}

/* ---- starts that wait ---- */

TEST_AS_USER(orders_without_descriptors_overtake_a_start_that_is_refused)
{
        struct rig rig;
        struct flood f;
        open_refused(&rig, &f);
        uint64_t begun_ms = clock_mono_ms();
        rig_start(&rig, 2, "/bin/true");
        ok(!spawn_wants_write(rig.s)); /* the socket is always writable */
        ok(spawn_wait_ms(rig.s) >= 0 && spawn_wait_ms(rig.s) <= LIMIT_HANDOVER_RETRY_MS);
        spawn_signal(rig.s, 1, SIGCONT, SPAWN_GROUP);
        rig_wait(&rig, rig.seen[1].signalled == 1);
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_int(WTERMSIG(rig.seen[1].exit.status), SIGKILL);
        ok(!rig.seen[2].has_gone || clock_mono_ms() - begun_ms >= LIMIT_HANDOVER_MS);
        close_flooded(&rig, &f);
}

TEST_AS_USER(a_refused_start_goes_when_it_is_taken_and_its_signals_behind_it)
{
        struct rig rig;
        struct flood f;
        open_refused(&rig, &f);
        rig_start_sh(&rig, 2, "exit 7");
        rig_start_sh(&rig, 3, "exit 8");
        for (int i = 0; i < 100; i++)
                spawn_signal(rig.s, 2, SIGCONT, SPAWN_PROCESS);
        for (int i = 0; i < 5; i++)
                rig_turn(&rig, 100);
        eq_int(rig.seen[2].signalled, 0);
        ok(!rig.seen[2].has_started && !rig.seen[3].has_started);
        flood_end(&f);
        rig_wait(&rig, rig.gone == 2);
        eq_int(rig.seen[2].exit.status, 7 << 8);
        eq_int(rig.seen[2].signalled, 100);
        eq_int(rig.seen[3].exit.status, 8 << 8);
        ok(spawn_wait_ms(rig.s) == -1);
        rig_close(&rig);
}

TEST_AS_USER(a_start_that_stays_refused_fails_in_time)
{
        struct rig rig;
        struct flood f;
        open_refused(&rig, &f);
        size_t own = rig_count_fds(getpid());
        uint64_t begun_ms = clock_mono_ms();
        for (uint32_t i = 2; i < 5; i++)
                rig_start_sh(&rig, i, "echo ran");
        spawn_signal(rig.s, 3, SIGCONT, SPAWN_PROCESS);
        int turns = 0;
        for (; rig.gone < 3; turns++)
                rig_turn(&rig, RIG_PATIENCE_MS);
        uint64_t took_ms = clock_mono_ms() - begun_ms;
        ok(took_ms >= LIMIT_HANDOVER_MS && took_ms < RIG_PATIENCE_MS);
        ok(turns <= 2 * (LIMIT_HANDOVER_MS / LIMIT_HANDOVER_RETRY_MS)); /* the loop slept in between */
        for (uint32_t i = 2; i < 5; i++) {
                ok(rig.seen[i].has_failed && !rig.seen[i].has_started);
                eq_str(rig.seen[i].step, "descriptors");
                eq_int(rig.seen[i].os_errno, ETOOMANYREFS);
        }
        eq_int(rig.seen[3].signalled, 1);
        eq_int(rig.seen[3].signal_errno, 0);
        eq_int(spawn_wait_ms(rig.s), -1);
        eq_u64(rig_count_fds(getpid()), own);
        rig.seen[2] = (struct rig_seen){ 0 };
        rig_start_sh(&rig, 2, "exit 9"); /* number 2 is free again */
        flood_end(&f);
        rig_wait(&rig, rig.seen[2].has_gone);
        eq_int(rig.seen[2].exit.status, 9 << 8);
        rig_output_close(&rig);
        spawn_kill(rig.s, 1);
        rig_wait(&rig, rig.seen[1].has_gone);
        char text[TEXT_BYTES] = "";
        rig_read(&rig, text, sizeof(text), NULL);
        eq_str(text, "");
        rig_close(&rig);
}

TEST_AS_USER(a_kill_cancels_a_start_that_waits)
{
        struct rig rig;
        struct flood f;
        open_refused(&rig, &f);
        size_t own = rig_count_fds(getpid());
        rig_start_sh(&rig, 2, "echo ran");
        spawn_signal(rig.s, 2, SIGCONT, SPAWN_PROCESS);
        spawn_kill(rig.s, 2);
        spawn_kill(rig.s, 2);
        spawn_signal(rig.s, 2, SIGCONT, SPAWN_PROCESS);
        eq_u64(rig_count_fds(getpid()), own);
        ok(!rig.seen[2].has_failed); /* only spawn_on_ready calls events */
        eq_int(spawn_wait_ms(rig.s), 0);
        flood_end(&f);
        rig_turn(&rig, RIG_PATIENCE_MS);
        ok(rig.seen[2].has_failed && rig.seen[2].has_gone);
        eq_str(rig.seen[2].step, "fork");
        eq_int(rig.seen[2].os_errno, ECANCELED);
        eq_int(rig.seen[2].signalled, 2);
        rig_start_sh(&rig, 3, "echo other");
        rig_wait(&rig, rig.seen[3].has_gone);
        char text[TEXT_BYTES] = "";
        rig_read(&rig, text, sizeof(text), "\n");
        eq_str(text, "other\n");
        rig_close(&rig);
}

/* ---- the end of the spawner ---- */

TEST_AS_USER(a_lost_spawner_takes_refused_starts_along)
{
        struct rig rig;
        struct flood f;
        open_refused(&rig, &f);
        rig_start(&rig, 2, "/bin/true");
        rig_start(&rig, 3, "/bin/true");
        spawn_kill(rig.s, 3);
        eq_int(kill(rig.spawner_pid, SIGKILL), 0);
        rig_wait(&rig, rig.is_lost);
        rig_close(&rig);
}

TEST_AS_USER(freeing_with_refused_starts_ends_everything)
{
        struct rig rig;
        struct flood f;
        open_refused(&rig, &f);
        rig_start(&rig, 2, "/bin/true");
        rig_start(&rig, 3, "/bin/true");
        spawn_kill(rig.s, 3);
        rig_close(&rig);
}

TEST_AS_USER(a_fs_helper_that_is_refused_fails_in_time)
{
        struct rig rig;
        struct flood f;
        open_refused(&rig, &f);
        uint64_t begun_ms = clock_mono_ms();
        int socket = -1;
        eq_int(spawn_start_fs_helper(spawn_fd(rig.s), rig.spawner_pid, rig.null, NULL, &socket),
               -ETOOMANYREFS);
        eq_int(socket, -1);
        ok(clock_mono_ms() - begun_ms >= LIMIT_HANDOVER_MS);
        close_flooded(&rig, &f);
}

/* ---- unexpected errors ---- */

TEST(a_start_that_the_socket_refuses_for_another_reason_fails)
{
        struct rig rig;
        static char word[50001];
        int least = 1;
        memset(word, 'x', sizeof(word) - 1);
        rig_open(&rig);
        eq_int(setsockopt(spawn_fd(rig.s), SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
        const char *const argv[] = { "true", word, NULL }, *const candidates[] = { "/bin/true", NULL };
        const char *const env[] = { NULL };
        const struct command_spec command = {
                .argv = argv,
                .env = env,
                .candidates = candidates,
                .cwd = "/",
        };
        const int stdio[] = { rig.null, rig.null, rig.null };
        eq_int(spawn_start(rig.s, 1, &command, stdio), -EMSGSIZE);
        rig_start_sh(&rig, 1, "exit 3"); /* number 1 is free again */
        rig_wait(&rig, rig.seen[1].has_gone);
        eq_int(rig.seen[1].exit.status, 3 << 8);
        rig_close(&rig);
}

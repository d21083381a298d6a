/* Tests of a process: every cell of its state table that can be reached, with real commands and a real loop.
 *
 * What a process tells its owner is written down as letters in the order of the calls: S started, F failed, o output
 * (repeated ones once), X exited, C closed, m stdin moved, s signalled, G gone. Every wait ends by an event; the guard
 * timer only turns a hang into a failure. Commands and the test wait for each other through FIFOs.
 */
#include "proc/process.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "keeper/tree.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GUARD_MS 60000
#define CHUNK_BYTES 4096
#define RETAINED_BYTES (16 * KIB)

struct rig {
        struct loop loop;
        struct procs procs;
        struct timer *guard;
        char dir[32];
        int go, tell; /* FIFOs, open for both directions: the test writes to $GO, commands write to $TELL */
        uint32_t settle_ms; /* for the process that is started next */
};

/* One process and what its owner heard. */
struct seen {
        struct process *p;
        char trace[64];
        struct buf out, err;
        size_t largest_chunk;
        uint64_t last_seq;
        enum process_state state_at_exit;
        const char *step;
        int os_errno, signal_errno;
        bool is_inside; /* a call of the test into the process is under way */
        bool was_told_inside;
};

static void note(struct process *p, char c)
{
        struct seen *seen = p->owner;
        size_t n = strlen(seen->trace);
        ok(n + 1 < sizeof(seen->trace));
        seen->was_told_inside = seen->was_told_inside || seen->is_inside;
        if (c == 'o' && n > 0 && seen->trace[n - 1] == 'o')
                return;
        seen->trace[n] = c;
}

static void note_seq(struct process *p, uint64_t seq)
{
        struct seen *seen = p->owner;
        eq_u64(seq, seen->last_seq + 1);
        seen->last_seq = seq;
}

static void on_started(struct process *p)
{
        ok(p->pid > 0);
        note(p, 'S');
}

static void on_failed(struct process *p, const char *step, int os_errno)
{
        struct seen *seen = p->owner;
        seen->step = step;
        seen->os_errno = os_errno;
        note(p, 'F');
}

static void on_output(struct process *p, enum stream stream, uint64_t seq, struct slice bytes)
{
        struct seen *seen = p->owner;
        ok(bytes.n > 0);
        eq_int(stream == STREAM_PTY, p->is_tty);
        ok(buf_append(stream == STREAM_STDERR ? &seen->err : &seen->out, bytes) == 0);
        seen->largest_chunk = MAX(seen->largest_chunk, bytes.n);
        note_seq(p, seq);
        note(p, 'o');
}

static void on_exited(struct process *p, uint64_t seq)
{
        ok(process_has_exited(p));
        ((struct seen *)p->owner)->state_at_exit = p->state;
        note_seq(p, seq);
        note(p, 'X');
}

static void on_closed(struct process *p, uint64_t seq)
{
        eq_int(p->state, PROC_CLOSED);
        note_seq(p, seq);
        note(p, 'C');
}

static void on_stdin_moved(struct process *p)
{
        note(p, 'm');
}

static void on_signalled(struct process *p, int os_errno)
{
        ((struct seen *)p->owner)->signal_errno = os_errno;
        note(p, 's');
}

static void on_gone(struct process *p)
{
        ok(p->is_gone);
        note(p, 'G');
}

static const struct process_events events = {
        .started = on_started,
        .failed = on_failed,
        .output = on_output,
        .exited = on_exited,
        .closed = on_closed,
        .stdin_moved = on_stdin_moved,
        .signalled = on_signalled,
        .gone = on_gone,
};

static void on_guard(UNUSED void *arg)
{
        fail_msg("the process did not do what was waited for");
}

static int fifo_open(const struct rig *rig, const char *name)
{
        char path[64];
        snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
        eq_int(mkfifo(path, 0600), 0);
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        ok(fd >= 0);
        return fd;
}

static void fifo_close(const struct rig *rig, const char *name, int fd)
{
        char path[64];
        snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
        eq_int(unlink(path), 0);
        fd_close(fd);
}

static void rig_open(struct rig *rig)
{
        struct err err = ERR_INIT;
        signal(SIGPIPE, SIG_IGN);
        eq_int(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
        *rig = (struct rig){ .dir = "/tmp/process_test.XXXXXX" };
        ok(mkdtemp(rig->dir));
        rig->go = fifo_open(rig, "go");
        rig->tell = fifo_open(rig, "tell");
        eq_int(loop_init(&rig->loop, &err), 0);
        eq_int(procs_init(&rig->procs, &rig->loop, CHUNK_BYTES, RETAINED_BYTES, &err), 0);
        rig->guard = timer_new(&rig->loop, on_guard, NULL);
        timer_start(rig->guard, GUARD_MS);
}

static void rig_close(struct rig *rig)
{
        eq_u64(rig->procs.retained_total, 0);
        pid_t spawner = spawn_pid(rig->procs.spawner);
        procs_release(&rig->procs);
        rig->guard = timer_free(rig->guard);
        loop_release(&rig->loop);
        eq_int(waitpid(spawner, NULL, 0), spawner);
        fifo_close(rig, "go", rig->go);
        fifo_close(rig, "tell", rig->tell);
        eq_int(rmdir(rig->dir), 0);
}

static void turn(struct rig *rig)
{
        loop_turn(&rig->loop, false);
}

#define wait_for(rig, cond)                            \
        do                                             \
                while (!(cond))                        \
                        loop_turn(&(rig)->loop, true); \
        while (0)

static bool has(const struct seen *seen, char c)
{
        return strchr(seen->trace, c) != NULL;
}

/* Returns the trace without G, for tests in which the end of the tree may come at any time. */
static const char *without_gone(struct seen *seen)
{
        char *gone = strchr(seen->trace, 'G');
        if (gone)
                memmove(gone, gone + 1, strlen(gone));
        return seen->trace;
}

enum kind { PIPES, STDIN_PIPE, TERMINAL };

static struct process *start_argv(struct rig *rig, struct seen *seen, enum kind kind, const char *const *argv,
                                  const char *const *candidates, const char *cwd, struct err *err)
{
        char go[64], tell[64];
        snprintf(go, sizeof(go), "GO=%s/go", rig->dir);
        snprintf(tell, sizeof(tell), "TELL=%s/tell", rig->dir);
        const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", go, tell, NULL };
        const struct command_spec command = {
                .argv = argv,
                .env = env,
                .candidates = candidates,
                .cwd = cwd,
                .is_tty = kind == TERMINAL,
                .wants_cgroup = true,
        };
        const struct process_request req = {
                .command = &command,
                .has_stdin_pipe = kind == STDIN_PIPE,
                .rows = 24,
                .cols = 80,
                .settle_ms = rig->settle_ms,
        };
        *seen = (struct seen){ .out = BUF_INIT(16 * MIB), .err = BUF_INIT(16 * MIB) };
        seen->p = process_new(&rig->procs, &events, seen);
        if (process_begin(seen->p, &req, err) < 0)
                seen->p = process_free(seen->p);
        return seen->p;
}

/* Writes bytes that are copied when they have to wait. */
static int write_to(struct process *p, struct slice bytes)
{
        return process_write_kept(p, bytes, NULL);
}

static void start(struct rig *rig, struct seen *seen, enum kind kind, const char *script)
{
        const char *const argv[] = { "sh", "-c", script, NULL };
        const char *const candidates[] = { "/bin/sh", NULL };
        struct err err = ERR_INIT;
        ok(start_argv(rig, seen, kind, argv, candidates, "/", &err));
        eq_str(seen->trace, "");
        eq_int(seen->p->state, PROC_STARTING);
}

/* Waits for the end of the tree, which the test has caused, and frees the process. */
static void finish(struct rig *rig, struct seen *seen)
{
        wait_for(rig, seen->p->is_gone);
        seen->p = process_free(seen->p);
        buf_release(&seen->out);
        buf_release(&seen->err);
}

static void let_go_on(struct rig *rig)
{
        eq_int(write(rig->go, "\n", 1), 1);
}

/* --- exit and end of output, in either order ---------------------------------------------------------------------- */

TEST(a_command_that_just_ends_tells_everything_in_order)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo out; echo err >&2; exit 3");
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SoXCG");
        eq_slice(buf_slice(&seen.out), S("out\n"));
        eq_slice(buf_slice(&seen.err), S("err\n"));
        eq_int(seen.p->exit_code, 3);
        eq_int(seen.p->exit_signal, 0);
        eq_int(seen.p->state, PROC_CLOSED);
        eq_u64(seen.last_seq + 1, seen.p->next_seq);
        finish(&rig, &seen);
        rig_close(&rig);
}

/* The flags are checked before the loop has run: they must be right from the beginning. */
TEST(our_ends_of_the_streams_never_block_and_the_childs_do)
{
        static const enum kind kinds[] = { PIPES, STDIN_PIPE, TERMINAL };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                struct rig rig;
                struct seen seen;
                rig_open(&rig);
                start(&rig, &seen, kinds[i], "exec grep -h ^flags /proc/self/fdinfo/[012]");
                const int fds[] = { seen.p->out[0].fd, seen.p->out[1].fd, seen.p->stdin_fd };
                for (size_t k = 0; k < ARRAY_LEN(fds); k++)
                        ok(fds[k] < 0 || (fcntl(fds[k], F_GETFL) & O_NONBLOCK));
                ok(fds[0] >= 0);
                wait_for(&rig, has(&seen, 'C'));
                must(buf_append_char(&seen.out, 0) == 0);
                char *flags = seen.out.p;
                for (int k = 0; k < 3; k++) {
                        flags = strstr(flags, "flags:");
                        ok(flags);
                        ok(!(strtoul(flags += strlen("flags:"), NULL, 8) & O_NONBLOCK));
                }
                finish(&rig, &seen);
                rig_close(&rig);
        }
}

TEST(an_exit_with_a_holder_of_the_output_is_closed_when_the_holder_ends)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo one; (read x <$GO; echo two) & exit 4");
        wait_for(&rig, has(&seen, 'X'));

        eq_str(seen.trace, "SoX");
        eq_int(seen.state_at_exit, PROC_EXITED);
        eq_slice(buf_slice(&seen.out), S("one\n"));
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'C'));
        eq_slice(buf_slice(&seen.out), S("one\ntwo\n"));
        wait_for(&rig, has(&seen, 'G'));
        eq_str(without_gone(&seen), "SoXoC");
        eq_int(seen.p->exit_code, 4);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(output_that_ends_before_the_exit_drains_and_then_closes_with_the_exit)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo one; exec >&- 2>&-; read x <$GO; exit 5");
        wait_for(&rig, seen.p->state == PROC_DRAINED);

        eq_str(seen.trace, "So");
        ok(!process_has_exited(seen.p));
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SoXCG");
        eq_int(seen.p->exit_code, 5);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(one_stream_may_end_long_before_the_other)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "exec >&-; read x <$GO; echo late >&2");
        wait_for(&rig, has(&seen, 'S') && seen.p->out[0].fd < 0);

        eq_int(seen.p->state, PROC_RUNNING);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SoXCG");
        eq_slice(buf_slice(&seen.err), S("late\n"));
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_death_by_signal_is_told_as_such)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "kill -USR2 $$");
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SXCG");
        eq_int(seen.p->exit_code, 128 + SIGUSR2);
        eq_int(seen.p->exit_signal, SIGUSR2);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(what_the_root_wrote_precedes_its_exit_however_much_it_was)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "head -c 3000000 /dev/zero; echo end >&2");
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SoXCG");
        eq_u64(seen.out.n, 3000000);
        ok(seen.largest_chunk <= CHUNK_BYTES);
        ok(seen.p->output.bytes <= RETAINED_BYTES);
        eq_u64(seen.p->output.bytes + seen.p->output.dropped_bytes, 3000004);
        const struct output *o = &seen.p->output;
        uint64_t heads = o->streams[STREAM_STDOUT].head_len + o->streams[STREAM_STDERR].head_len;
        eq_u64(rig.procs.retained_total, o->bytes + o->count * sizeof(struct chunk) + heads);
        finish(&rig, &seen);
        rig_close(&rig);
}

/* --- an owner that judges failures by the output ------------------------------------------------------------------- */

TEST(a_failure_waits_for_one_more_piece_of_output)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = GUARD_MS;
        start(&rig, &seen, PIPES, "(read x <$GO; echo late; read x <$GO) & exit 4");
        wait_for(&rig, seen.p->settle);

        eq_str(seen.trace, "S");
        ok(!process_has_exited(seen.p));
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'X'));
        eq_str(seen.trace, "SoX");
        eq_int(seen.state_at_exit, PROC_EXITED);
        eq_int(seen.p->exit_code, 4);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'C') && has(&seen, 'G'));
        eq_str(without_gone(&seen), "SoXC");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_failure_waits_no_longer_than_it_was_told)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = 5;
        start(&rig, &seen, PIPES, "read x <$GO & exit 4");
        wait_for(&rig, has(&seen, 'X'));

        eq_str(seen.trace, "SX");
        ok(!seen.p->settle);
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_failure_whose_output_ends_meanwhile_is_told_at_once)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = GUARD_MS;
        start(&rig, &seen, PIPES, "(read x <$GO; exec >&- 2>&-; read x <$GO) & exit 4");
        wait_for(&rig, seen.p->settle);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'C'));

        eq_str(seen.trace, "SXC");
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(what_is_judged_does_not_wait_where_nothing_can_come)
{
        static const struct {
                enum kind kind;
                const char *script, *trace;
        } rows[] = {
                { PIPES, "read x <$GO & exit 0", "SX" },
                { PIPES, "(exec >/dev/null 2>&1; read x <$GO) & exit 4", "SXC" },
                { TERMINAL, "trap '' HUP; read x <$GO & exit 4", "SmXC" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct rig rig;
                struct seen seen;
                rig_open(&rig);
                rig.settle_ms = GUARD_MS;
                start(&rig, &seen, rows[i].kind, rows[i].script);
                wait_for(&rig, has(&seen, 'X')); /* before its child can go on */
                ok(!seen.p->settle);
                eq_str(without_gone(&seen), rows[i].trace);
                process_kill_rest(seen.p);
                finish(&rig, &seen);
                rig_close(&rig);
        }
}

TEST(a_kill_ends_the_wait_of_a_failure)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = GUARD_MS;
        start(&rig, &seen, PIPES, "read x <$GO & exit 4");
        wait_for(&rig, seen.p->settle);
        process_kill(seen.p);
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SXCG");
        eq_int(seen.p->exit_code, 4);
        ok(!seen.p->has_failed);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(output_of_a_failure_is_read_before_it_is_told_also_while_paused)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        rig.settle_ms = GUARD_MS;
        start(&rig, &seen, PIPES, "read x <$GO; echo why >&2; read x <$GO & exit 4");
        wait_for(&rig, has(&seen, 'S'));
        process_pause(seen.p, true);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'X'));

        eq_str(seen.trace, "SoX");
        eq_slice(buf_slice(&seen.err), S("why\n"));
        process_pause(seen.p, false);
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(gone_is_the_last_event_also_when_it_is_known_first)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "read x <$GO & exit 0");
        wait_for(&rig, has(&seen, 'X'));
        eq_int(seen.p->state, PROC_EXITED);

        process_kill_rest(seen.p);
        struct pollfd spawner = { .fd = spawn_fd(rig.procs.spawner), .events = POLLIN };
        while (!seen.p->is_gone && poll(&spawner, 1, GUARD_MS) > 0)
                spawn_on_ready(
                        rig.procs.spawner); /* the loop does not run, so it does not read the streams */
        wait_for(&rig, has(&seen, 'C'));
        finish(&rig, &seen);
        rig_close(&rig);
        eq_str(seen.trace, "SXCG");
}

/* --- a start that fails ------------------------------------------------------------------------------------------- */

TEST(a_program_that_does_not_exist_fails_and_is_gone)
{
        struct rig rig;
        struct seen seen;
        struct err err = ERR_INIT;
        const char *const argv[] = { "/nonexistent/program", NULL };
        rig_open(&rig);
        ok(start_argv(&rig, &seen, STDIN_PIPE, argv, argv, "/", &err));
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "FG");
        eq_str(seen.step, "exec");
        eq_int(seen.os_errno, ENOENT);
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_directory_that_does_not_exist_fails_and_is_gone)
{
        struct rig rig;
        struct seen seen;
        struct err err = ERR_INIT;
        const char *const argv[] = { "/bin/true", NULL };
        rig_open(&rig);
        ok(start_argv(&rig, &seen, TERMINAL, argv, argv, "/nonexistent", &err));
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "FG");
        eq_str(seen.step, "cwd");
        eq_int(seen.os_errno, ENOENT);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_request_that_is_too_large_begins_nothing)
{
        struct rig rig;
        struct seen seen;
        struct err err = ERR_INIT;
        rig_open(&rig);
        _free_ char *large = mem_alloc(SPAWN_REQUEST_MAX + 1);
        memset(large, 'x', SPAWN_REQUEST_MAX);
        large[SPAWN_REQUEST_MAX] = 0;
        const char *const argv[] = { "true", large, NULL }, *const candidates[] = { "/bin/true", NULL };

        ok(!start_argv(&rig, &seen, STDIN_PIPE, argv, candidates, "/", &err));
        eq_int(err.code, -E2BIG);
        eq_int(err.os_errno, E2BIG);
        eq_int(rig.procs.used, 0);
        eq_str(strchr(seen.trace, 'F') ? "F" : "", "");
        rig_close(&rig);
}

TEST(a_small_write_is_taken_however_much_waits_for_other_processes)
{
        static char large[LIMIT_STDIN_FREE_BYTES + 1];
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO; exec cat");
        wait_for(&rig, has(&seen, 'S'));
        rig.procs.stdin_total = LIMIT_STDIN_TOTAL_BYTES;
        eq_int(write_to(seen.p, slice_from(large, sizeof(large))), -ENOBUFS);
        memset(large, 'x', sizeof(large));
        eq_int(write_to(seen.p, slice_from(large, LIMIT_STDIN_FREE_BYTES)), 0);
        eq_int(write_to(seen.p, S("y\n")), 0); /* the pipe takes it, so nothing is queued */
        size_t queued = seen.p->stdin_queued;
        ok(queued > 0);
        eq_int(write_to(seen.p, S("z\n")), -ENOBUFS);
        eq_u64(rig.procs.stdin_total, LIMIT_STDIN_TOTAL_BYTES + queued);
        let_go_on(&rig);
        wait_for(&rig, seen.p->stdin_queued == 0);
        eq_u64(rig.procs.stdin_total, LIMIT_STDIN_TOTAL_BYTES);
        rig.procs.stdin_total = 0;
        eq_int(process_close_stdin(seen.p), STDIN_NOW_CLOSED);
        wait_for(&rig, has(&seen, 'C'));
        eq_u64(seen.out.n, LIMIT_STDIN_FREE_BYTES + 2);
        finish(&rig, &seen);
        rig_close(&rig);
}

/* --- kill --------------------------------------------------------------------------------------------------------- */

TEST(a_kill_while_starting_ends_the_start)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO & read x <$GO");
        process_kill(seen.p);
        process_kill(seen.p); /* the second call does nothing */

        eq_str(seen.trace, "m");
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        wait_for(&rig, has(&seen, 'G'));
        /* The command may have begun to run before the kill arrived. */
        ok(strcmp(seen.trace, "mFG") == 0 || strcmp(seen.trace, "mSXCG") == 0);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_kill_while_running_ends_the_whole_tree)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "setsid sh -c 'echo $$; read x <$GO' & read x <$GO");
        wait_for(&rig, has(&seen, 'o'));
        eq_str(seen.trace, "So");
        process_kill(seen.p);
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SomXCG");
        eq_int(seen.p->exit_code, 128 + SIGKILL);
        eq_int(seen.p->exit_signal, SIGKILL);
        ok(buf_append_char(&seen.out, 0) == 0);
        eq_int(kill((pid_t)strtol(seen.out.p, NULL, 10), 0),
               -1); /* a process in a session of its own is dead, too */
        eq_int(errno, ESRCH);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_kill_while_drained_exits_and_closes)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "exec >&- 2>&-; read x <$GO");
        wait_for(&rig, seen.p->state == PROC_DRAINED);
        process_kill(seen.p);
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SXCG");
        eq_int(seen.p->exit_signal, SIGKILL);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_kill_after_the_exit_leaves_holders_alone_and_kill_rest_does_not)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "(read x <$GO; echo alive; read x <$GO) & exit 0");
        wait_for(&rig, has(&seen, 'X'));
        eq_int(seen.p->state, PROC_EXITED);
        process_kill(seen.p);
        eq_int(seen.p->state, PROC_EXITED);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'o')); /* the process that the command left is alive */

        process_kill_rest(seen.p);
        wait_for(&rig, has(&seen, 'C') && has(&seen, 'G'));
        eq_int(seen.p->exit_code, 0);
        process_kill_rest(seen.p); /* no process is left: nothing happens */
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_kill_after_the_close_leaves_the_rest_alone_and_kill_rest_does_not)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "(exec >/dev/null 2>&1; read x <$GO) & exit 0");
        wait_for(&rig, has(&seen, 'C'));
        eq_str(seen.trace, "SXC");
        process_kill(seen.p);
        turn(&rig);
        ok(!seen.p->is_gone);

        process_kill_rest(seen.p);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_killed_process_does_not_wait_for_holders_outside_of_its_tree)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo $$; read x <$GO");
        wait_for(&rig, has(&seen, 'o'));
        char path[64];
        ok(buf_append_char(&seen.out, 0) == 0);
        snprintf(path, sizeof(path), "/proc/%ld/fd/1", strtol(seen.out.p, NULL, 10));
        _close_ int holder = open(path, O_WRONLY | O_CLOEXEC);
        ok(holder >= 0);

        process_kill(seen.p);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SoXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_lost_spawner_ends_its_processes_and_is_replaced)
{
        struct rig rig;
        struct seen running, starting, next;
        rig_open(&rig);
        start(&rig, &running, STDIN_PIPE, "read x <$GO");
        wait_for(&rig, has(&running, 'S'));
        pid_t lost = spawn_pid(rig.procs.spawner);
        eq_int(kill(lost, SIGKILL), 0);
        start(&rig, &starting, PIPES, "read x <$GO");
        wait_for(&rig, has(&running, 'G') && (has(&starting, 'G') || has(&starting, 'S')));

        eq_str(running.trace, "SmXCG");
        /* The keeper may have reported how the command ended. */
        ok(running.p->exit_code == -1 || running.p->exit_code == 128 + SIGKILL);
        /* The start has failed if the dead spawner got it. If the server saw the death in time, the next spawner runs it. */
        if (has(&starting, 'S')) {
                process_kill(starting.p);
                wait_for(&rig, has(&starting, 'G'));
                eq_str(starting.trace, "SXCG");
        } else {
                eq_str(starting.trace, "FG");
        }
        eq_int(rig.procs.used, 0);
        start(&rig, &next, PIPES, "exit 6");
        wait_for(&rig, has(&next, 'G'));
        eq_str(next.trace, "SXCG");
        eq_int(next.p->exit_code, 6);
        finish(&rig, &running);
        finish(&rig, &starting);
        finish(&rig, &next);
        /* The spawner was reaped when it was replaced, or is reaped now. */
        ok(waitpid(lost, NULL, 0) == lost || errno == ECHILD);
        rig_close(&rig);
}

static void count_child(void *arg, UNUSED pid_t pid)
{
        (*(size_t *)arg)++;
}

/* Reaps as the server does on SIGCHLD, until the spawner in use is the only child. */
static void wait_alone(struct rig *rig)
{
        for (size_t n = 0; n != 1;) {
                procs_reap(&rig->procs);
                turn(rig);
                n = 0;
                eq_int(tree_each_child(count_child, &n), 0);
        }
}

/* Waits for the death of a child, and does not reap it. */
static void wait_dead(pid_t pid)
{
        siginfo_t info;
        eq_int(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void on_late(void *arg)
{
        ((struct rlimit *)arg)->rlim_cur = 0;
}

/* Kills the spawner in use, and has the server notice that. */
static void kill_spawner(struct rig *rig)
{
        pid_t lost = spawn_pid(rig->procs.spawner);
        eq_int(kill(lost, SIGKILL), 0);
        wait_dead(lost);
        procs_reap(&rig->procs);
        ok(spawn_pid(rig->procs.spawner) != lost);
}

/* When the next spawner is due, none can be made, because no descriptors are free. Later there are free ones again. */
TEST(a_spawner_that_is_tried_again_when_the_system_has_no_descriptors_is_tried_once_more)
{
        skip_in_valgrind("does not pass on the limit on descriptors");
        struct rig rig;
        struct rlimit before, none;
        rig_open(&rig);
        pid_t lost = spawn_pid(rig.procs.spawner);
        rig.procs.deaths.count = 1; /* as after a first spawner that could not run here */
        eq_int(kill(lost, SIGKILL), 0);
        wait_for(&rig, rig.procs.spawner == NULL);
        eq_int(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){ .rlim_cur = 3, .rlim_max = before.rlim_max };
        eq_int(setrlimit(RLIMIT_NOFILE, &none), 0);
        struct timer *late = timer_new(&rig.loop, on_late, &none);
        timer_start(late, 4 * LIMIT_SPAWNER_RETRY_MS);
        wait_for(&rig, none.rlim_cur == 0);
        ok(!rig.procs.spawner);
        eq_int(setrlimit(RLIMIT_NOFILE, &before), 0);
        late = timer_free(late);
        wait_for(&rig, rig.procs.spawner);

        struct seen seen;
        start(&rig, &seen, PIPES, "exit 3");
        wait_for(&rig, has(&seen, 'C'));
        eq_int(seen.p->exit_code, 3);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_start_that_a_dead_spawner_did_not_take_fails_while_keepers_are_still_busy)
{
        struct rig rig;
        struct seen running, starting;
        rig_open(&rig);
        start(&rig, &running, PIPES, "echo $PPID; read x <$GO");
        wait_for(&rig, has(&running, 'o'));
        pid_t keeper = (pid_t)strtol(running.out.p, NULL, 10);
        eq_int(kill(keeper, SIGSTOP), 0);
        eq_int(kill(spawn_pid(rig.procs.spawner), SIGSTOP), 0);
        start(&rig, &starting, PIPES, "read x <$GO");
        kill_spawner(&rig);

        wait_for(&rig, has(&starting, 'F'));
        eq_str(starting.trace, "F"); /* `gone` follows when the keepers are gone, too */
        eq_str(starting.step, "spawner");
        eq_str(running.trace, "So");
        eq_int(kill(keeper, SIGCONT), 0);
        wait_dead(keeper); /* the spawner is dead, so its keeper is a child of the test */
        wait_for(&rig, has(&running, 'G') && has(&starting, 'G'));
        eq_str(running.trace, "SoXCG");
        /* The server reads the report of the keeper even if the spawner died before it read the last order. */
        eq_int(running.p->exit_code, 128 + SIGKILL);
        eq_str(starting.trace, "FG");
        eq_int(rig.procs.used, 0);
        finish(&rig, &running);
        finish(&rig, &starting);
        wait_alone(&rig);
        rig_close(&rig);
}

/* A lease makes execve wait until its holder releases it. By then the start was given up, and the command must not stay. */
TEST(a_start_that_outlives_its_spawner_fails_and_leaves_nothing)
{
        struct rig rig;
        struct seen seen;
        struct err err = ERR_INIT;
        char path[64];
        rig_open(&rig);
        snprintf(path, sizeof(path), "%s/slow", rig.dir);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, S("#!/bin/sh\nread x <$GO\n")), 0);
        void (*old)(int) = signal(SIGIO, SIG_IGN);
        bool has_leases = fcntl(fd, F_SETLEASE, F_WRLCK) == 0; /* not every file system has them */
        if (has_leases) {
                const char *const argv[] = { path, NULL };
                ok(start_argv(&rig, &seen, PIPES, argv, argv, "/", &err));
                while (fcntl(fd, F_GETLEASE) == F_WRLCK)
                        turn(&rig); /* turns the loop until execve asks for the file */
                kill_spawner(&rig);
                wait_for(&rig, has(&seen, 'F'));
                eq_str(seen.trace, "F");
                eq_str(seen.step, "spawner");
        }
        fd_close(fd);
        if (has_leases) {
                wait_for(&rig, has(&seen, 'G'));
                eq_str(seen.trace, "FG");
                finish(&rig, &seen);
                wait_alone(&rig);
        }
        eq_int(unlink(path), 0);
        signal(SIGIO, old);
        rig_close(&rig);
        if (!has_leases)
                skip();
}

/* --- terminals ---------------------------------------------------------------------------------------------------- */

TEST(a_terminal_carries_both_directions)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, TERMINAL,
              "stty -echo; test -t 0 && test -t 2 && echo yes; read x; echo got $x >&2");
        wait_for(&rig, has(&seen, 'o'));
        eq_int(write_to(seen.p, S("hello\n")), 0);
        wait_for(&rig, has(&seen, 'G'));

        eq_str(seen.trace, "SomXCG");
        eq_slice(buf_slice(&seen.out), S("yes\r\ngot hello\r\n"));
        eq_u64(seen.err.n, 0);
        eq_int(seen.p->exit_code, 0);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_terminal_closes_with_the_exit_of_its_root_whoever_still_holds_it)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, TERMINAL, "trap '' HUP; (read x <$GO; read x <$GO) & echo hi; exit 3");
        wait_for(&rig, has(&seen, 'C'));

        eq_str(seen.trace, "SomXC");
        eq_slice(buf_slice(&seen.out), S("hi\r\n"));
        eq_int(seen.p->exit_code, 3);
        ok(!seen.p->is_gone);
        process_kill_rest(seen.p);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SomXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_terminal_whose_input_nobody_reads_holds_writes_back_until_somebody_does)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        /* Bytes that a raw terminal does not take are queued, and its output is still read. */
        start(&rig, &seen, TERMINAL,
              "stty raw -echo; echo ready; read x <$GO; head -c 100000 | wc -c; read x <$GO");
        wait_for(&rig, has(&seen, 'o'));
        _free_ char *bytes = mem_zalloc(100000);
        memset(bytes, 'x', 100000);
        eq_int(write_to(seen.p, slice_from(bytes, 100000)), 0);
        ok(seen.p->stdin_queued > 0);
        turn(&rig);

        let_go_on(&rig);
        wait_for(&rig, seen.out.n >= strlen("ready\n100000\n"));
        eq_slice(buf_slice(&seen.out), S("ready\n100000\n"));
        eq_u64(seen.p->stdin_queued, 0);
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
}

/* --- stdin -------------------------------------------------------------------------------------------------------- */

TEST(a_full_stdin_refuses_the_next_write_and_tells_when_there_is_room)
{
        struct rig rig;
        struct seen seen;
        size_t first = LIMIT_STDIN_BYTES + MIB; /* a single write may exceed the limit */
        rig_open(&rig);
        _free_ char *bytes = mem_zalloc(first);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO; head -c 9437189 | wc -c");
        wait_for(&rig, has(&seen, 'S'));

        eq_int(write_to(seen.p, slice_from(bytes, first)), 0);
        eq_int(write_to(seen.p, S("later")), -EAGAIN);
        eq_int(write_to(seen.p, S("")), -EAGAIN); /* an empty write keeps its place in the order, too */
        turn(&rig);
        eq_str(seen.trace, "S");

        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'm'));
        ok(seen.p->stdin_queued < LIMIT_STDIN_BYTES);
        eq_int(write_to(seen.p, S("later")), 0);
        wait_for(&rig, has(&seen, 'G'));
        eq_slice(buf_slice(&seen.out), S("9437189\n")); /* no byte is lost or comes twice */
        eq_str(seen.trace, "SmomXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(bytes_arrive_in_order_also_when_they_had_to_wait)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO; head -c 700000 | tr -d x");
        wait_for(&rig, has(&seen, 'S'));
        _free_ char *bytes = mem_zalloc(70000);
        memset(bytes, 'x', 70000);
        for (char c = '0'; c <= '9'; c++) {
                bytes[69999] = c;
                eq_int(write_to(seen.p, slice_from(bytes, 70000)), 0);
        }
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_slice(buf_slice(&seen.out), S("0123456789"));
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(without_a_pipe_or_terminal_stdin_is_closed_from_the_start)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "cat; echo end"); /* the stdin of the command is empty */
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SoXCG");
        eq_slice(buf_slice(&seen.out), S("end\n"));
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_write_that_finds_no_reader_closes_stdin_for_good)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "exec <$GO; echo ready; read x");
        wait_for(&rig, has(&seen, 'o'));
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        eq_int(seen.p->stdin_fd, -1);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_int(seen.p->exit_code, 0); /* the process itself was not ended */
        finish(&rig, &seen);
        rig_close(&rig);
}

/* stdin_moved must not be called from inside process_write_kept, because the owner may be writing a queue. */
TEST(a_write_that_finds_no_reader_tells_so_by_its_answer_only)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, STDIN_PIPE, "exec <$GO; echo ready; read x");
        wait_for(&rig, has(&seen, 'o'));
        seen.is_inside = true;
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        seen.is_inside = false;
        bool was_told_inside = seen.was_told_inside;
        let_go_on(&rig);
        finish(&rig, &seen);
        rig_close(&rig);
        ok(!was_told_inside);
}

TEST(a_reader_that_goes_while_bytes_wait_is_told_once)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        _free_ char *bytes = mem_zalloc(LIMIT_STDIN_BYTES);
        start(&rig, &seen, STDIN_PIPE, "read x <$GO; exec <$GO; read x");
        wait_for(&rig, has(&seen, 'S'));
        eq_int(write_to(seen.p, slice_from(bytes, LIMIT_STDIN_BYTES)), 0);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'm'));

        ok(!seen.p->is_stdin_open);
        eq_u64(seen.p->stdin_queued, 0);
        eq_int(write_to(seen.p, S("x")), -EPIPE);
        eq_str(seen.trace, "Sm");
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SmXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

/* --- pause -------------------------------------------------------------------------------------------------------- */

/* Waits, with the loop turning, until a command has written to $TELL. */
static void wait_until_told(struct rig *rig)
{
        char c;
        while (read(rig->tell, &c, 1) != 1)
                loop_turn(&rig->loop, false);
}

TEST(a_pause_holds_output_back_and_the_end_of_the_pause_gives_it)
{
        static const enum kind kinds[] = { PIPES, TERMINAL };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                struct rig rig;
                struct seen seen;
                rig_open(&rig);
                start(&rig, &seen, kinds[i], "echo one; echo >$TELL; read x <$GO; echo two");
                process_pause(seen.p, true); /* while starting */
                wait_for(&rig, has(&seen, 'S'));
                wait_until_told(&rig);
                turn(&rig);
                turn(&rig);
                eq_str(seen.trace, "S");
                process_pause(seen.p, true);
                process_pause(seen.p, false);
                wait_for(&rig, has(&seen, 'o'));
                eq_int(strncmp(seen.out.p, "one", 3), 0);

                process_pause(seen.p, true); /* while running */
                process_pause(seen.p, false);
                let_go_on(&rig);
                wait_for(&rig, has(&seen, 'G'));
                eq_str(seen.trace, kinds[i] == PIPES ? "SoXCG" : "SomXCG");
                finish(&rig, &seen);
                rig_close(&rig);
        }
}

TEST(an_exit_is_told_while_paused_and_the_output_follows_the_pause)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "echo out; exit 5");
        process_pause(seen.p, true);
        wait_for(&rig, has(&seen, 'X'));

        eq_int(seen.p->exit_code, 5);
        eq_int(seen.p->state, PROC_EXITED);
        wait_for(&rig, seen.p->is_gone);
        ok(!has(&seen, 'o') && !has(&seen, 'C'));
        process_pause(seen.p, false);
        wait_for(&rig, has(&seen, 'C'));
        eq_slice(buf_slice(&seen.out), S("out\n"));
        ok(strchr(seen.trace, 'o') < strchr(seen.trace, 'C'));
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(an_end_of_output_is_noticed_after_the_pause)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "exec >&- 2>&-; echo >$TELL; read x <$GO");
        process_pause(seen.p, true);
        wait_for(&rig, has(&seen, 'S'));
        wait_until_told(&rig);
        turn(&rig);
        eq_int(seen.p->state, PROC_RUNNING);
        process_pause(seen.p, false);
        wait_for(&rig, seen.p->state == PROC_DRAINED);
        let_go_on(&rig);
        wait_for(&rig, has(&seen, 'G'));
        eq_str(seen.trace, "SXCG");
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(a_paused_process_is_killed_and_closed_all_the_same)
{
        static const enum kind kinds[] = { PIPES, TERMINAL };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                struct rig rig;
                struct seen seen;
                rig_open(&rig);
                start(&rig, &seen, kinds[i], "echo out; echo >$TELL; sleep 1000");
                process_pause(seen.p, true);
                wait_for(&rig, has(&seen, 'S'));
                wait_until_told(&rig);
                process_kill(seen.p);
                wait_for(&rig, has(&seen, 'G'));
                eq_str(seen.trace,
                       kinds[i] == PIPES ? "SoXCG" : "SmoXCG"); /* the output of the command is not lost */
                eq_int(seen.p->exit_signal, SIGKILL);
                finish(&rig, &seen);
                rig_close(&rig);
        }
}

/* --- signals and numbers ------------------------------------------------------------------------------------------ */

TEST(signals_are_answered_one_by_one)
{
        struct rig rig;
        struct seen seen;
        rig_open(&rig);
        start(&rig, &seen, PIPES, "trap '' USR1; echo ready; read x <$GO");
        wait_for(&rig, has(&seen, 'o'));
        process_signal(seen.p, SIGUSR1, SPAWN_GROUP);
        process_signal(seen.p, SIGUSR1, SPAWN_PROCESS);
        eq_str(seen.trace, "So");
        wait_for(&rig, strcmp(seen.trace, "Soss") == 0);
        eq_int(seen.signal_errno, 0);
        process_signal(seen.p, SIGINT, SPAWN_TREE);
        wait_for(&rig, has(&seen, 'G'));
        eq_int(seen.p->exit_signal, SIGINT);
        eq_int(seen.p->exit_code, 128 + SIGINT);
        ok(strcmp(seen.trace, "SosssXCG") == 0 || strcmp(seen.trace, "SossXsCG") == 0 ||
           strcmp(seen.trace, "SossXCsG") == 0);
        finish(&rig, &seen);
        rig_close(&rig);
}

TEST(many_processes_at_once_keep_their_events_apart)
{
        enum { COUNT = 70 }; /* more than the first table holds */
        static struct seen seen[COUNT];
        struct rig rig;
        char script[64];
        rig_open(&rig);
        for (int i = 0; i < COUNT; i++) {
                snprintf(script, sizeof(script), "echo %d; exit %d", i, i);
                start(&rig, &seen[i], PIPES, script);
        }
        eq_int(rig.procs.used, COUNT);
        for (int i = 0; i < COUNT; i++)
                wait_for(&rig, has(&seen[i], 'G'));
        eq_int(rig.procs.used, 0);
        for (int i = 0; i < COUNT; i++) {
                snprintf(script, sizeof(script), "%d\n", i);
                eq_slice(buf_slice(&seen[i].out), slice_from_str(script));
                eq_int(seen[i].p->exit_code, i);
                eq_str(without_gone(&seen[i]), "SoXC");
                finish(&rig, &seen[i]);
        }
        rig_close(&rig);
}

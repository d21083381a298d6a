/* process_rig: for the unit tests of a process: every cell of its state table that can be reached, with real commands and a real loop.
 *
 * What a process tells its owner is written down as letters in the order of the calls: S started, F failed, o output
 * (repeated ones once), X exited, C closed, m stdin moved, s signalled, G gone. Every wait ends by an event; the guard
 * timer only turns a hang into a failure. Commands and the test wait for each other through FIFOs.
 */
#pragma once

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

static inline void note(struct process *p, char c)
{
        struct seen *seen = p->owner;
        size_t n = strlen(seen->trace);
        ok(n + 1 < sizeof(seen->trace));
        seen->was_told_inside = seen->was_told_inside || seen->is_inside;
        if (c == 'o' && n > 0 && seen->trace[n - 1] == 'o')
                return;
        seen->trace[n] = c;
}

static inline void note_seq(struct process *p, uint64_t seq)
{
        struct seen *seen = p->owner;
        eq_u64(seq, seen->last_seq + 1);
        seen->last_seq = seq;
}

static inline void on_started(struct process *p)
{
        ok(p->pid > 0);
        note(p, 'S');
}

static inline void on_failed(struct process *p, const char *step, int os_errno)
{
        struct seen *seen = p->owner;
        seen->step = step;
        seen->os_errno = os_errno;
        note(p, 'F');
}

static inline void on_output(struct process *p, enum stream stream, uint64_t seq, struct slice bytes)
{
        struct seen *seen = p->owner;
        ok(bytes.n > 0);
        eq_int(stream == STREAM_PTY, p->is_tty);
        ok(buf_append(stream == STREAM_STDERR ? &seen->err : &seen->out, bytes) == 0);
        seen->largest_chunk = MAX(seen->largest_chunk, bytes.n);
        note_seq(p, seq);
        note(p, 'o');
}

static inline void on_exited(struct process *p, uint64_t seq)
{
        ok(process_has_exited(p));
        ((struct seen *)p->owner)->state_at_exit = p->state;
        note_seq(p, seq);
        note(p, 'X');
}

static inline void on_closed(struct process *p, uint64_t seq)
{
        eq_int(p->state, PROC_CLOSED);
        note_seq(p, seq);
        note(p, 'C');
}

static inline void on_stdin_moved(struct process *p)
{
        note(p, 'm');
}

static inline void on_signalled(struct process *p, int os_errno)
{
        ((struct seen *)p->owner)->signal_errno = os_errno;
        note(p, 's');
}

static inline void on_gone(struct process *p)
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

static inline void on_guard(UNUSED void *arg)
{
        fail_msg("the process did not do what was waited for");
}

static inline int fifo_open(const struct rig *rig, const char *name)
{
        char path[64];
        snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
        eq_int(mkfifo(path, 0600), 0);
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        ok(fd >= 0);
        return fd;
}

static inline void fifo_close(const struct rig *rig, const char *name, int fd)
{
        char path[64];
        snprintf(path, sizeof(path), "%s/%s", rig->dir, name);
        eq_int(unlink(path), 0);
        fd_close(fd);
}

static inline void rig_open(struct rig *rig)
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

static inline void rig_close(struct rig *rig)
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

static inline void turn(struct rig *rig)
{
        loop_turn(&rig->loop, false);
}

#define wait_for(rig, cond)                            \
        do                                             \
                while (!(cond))                        \
                        loop_turn(&(rig)->loop, true); \
        while (0)

static inline bool has(const struct seen *seen, char c)
{
        return strchr(seen->trace, c) != NULL;
}

/* Returns the trace without G, for tests in which the end of the tree may come at any time. */
static inline const char *without_gone(struct seen *seen)
{
        char *gone = strchr(seen->trace, 'G');
        if (gone)
                memmove(gone, gone + 1, strlen(gone));
        return seen->trace;
}

enum kind { PIPES, STDIN_PIPE, TERMINAL };

static inline struct process *start_argv(struct rig *rig, struct seen *seen, enum kind kind,
                                         const char *const *argv, const char *const *candidates,
                                         const char *cwd, struct err *err)
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
static inline int write_to(struct process *p, struct slice bytes)
{
        return process_write_kept(p, bytes, NULL);
}

static inline void start(struct rig *rig, struct seen *seen, enum kind kind, const char *script)
{
        const char *const argv[] = { "sh", "-c", script, NULL };
        const char *const candidates[] = { "/bin/sh", NULL };
        struct err err = ERR_INIT;
        ok(start_argv(rig, seen, kind, argv, candidates, "/", &err));
        eq_str(seen->trace, "");
        eq_int(seen->p->state, PROC_STARTING);
}

/* Waits for the end of the tree, which the test has caused, and frees the process. */
static inline void finish(struct rig *rig, struct seen *seen)
{
        wait_for(rig, seen->p->is_gone);
        seen->p = process_free(seen->p);
        buf_release(&seen->out);
        buf_release(&seen->err);
}

static inline void let_go_on(struct rig *rig)
{
        eq_int(write(rig->go, "\n", 1), 1);
}

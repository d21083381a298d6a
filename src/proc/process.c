#include "proc/process.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "proc/process_internal.h"
#include "proc/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* At an exit the rest of a stream is read at once, at most this much: a pipe's largest size, so that nothing that the
 * root wrote is late, and a child that goes on writing cannot hold the exit back. */
#define EXIT_DRAIN_BYTES MIB

#define TTY_RETRY_MS 100
#define DRAIN_TRIES 1000
#define TTY_KEY_BYTES 64    /* of the first read, at most: a key, an echo, a prompt */
#define TTY_BULK_BYTES 2048 /* of one read: somebody writes in bulk */
#define TTY_REFILL_US 50    /* waited for one refill, and … */
#define TTY_REFILLS_US 400  /* … for all of one chunk */

enum event { EV_STARTED, EV_EXIT, EV_EOF, EV_KILL, EVENTS };

struct step {
        enum process_state next;
        void (*act)(struct process *p);
        bool is_possible;
};

static void close_stream(struct process_stream *s)
{
        s->watch = watch_free(s->watch);
        s->retry = timer_free(s->retry);
        s->fd = fd_close(s->fd);
}

static bool streams_ended(const struct process *p)
{
        return p->out[0].fd < 0 && p->out[1].fd < 0;
}

static uint64_t take_seq(struct process *p)
{
        return p->next_seq++;
}

/* --- what the state table does ------------------------------------------------------------------------------------ */

static void on_stream(void *arg, unsigned events);

static void begin_io(struct process *p)
{
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++) {
                struct process_stream *s = &p->out[i];
                if (s->fd >= 0)
                        s->watch = watch_new(p->procs->loop, s->fd, on_stream, s);
        }
        process_watch_streams(p);
        p->events->started(p);
}

static void note_exit(struct process *p)
{
        stdin_close(p);
        p->events->exited(p, take_seq(p));
}

static void note_closed(struct process *p)
{
        stdin_close(p);
        p->events->closed(p, take_seq(p));
}

static void happen(struct process *p, enum event ev);

/* The streams had ended before: between the two the owner sees a process that has exited, with the exit counted. */
static void note_exit_then_close(struct process *p)
{
        note_exit(p);
        happen(p, EV_EOF);
}

static void send_kill(struct process *p)
{
        p->is_killed = true;
        stdin_refuse(p); /* not closed yet: a child that reads the end first would exit by itself */
        procs_kill(p);
}

#define GO(next, act)           \
        {                       \
                next, act, true \
        }
/* What a process does on an event. Rows: where it is; columns: what happened. */
static const struct step steps[PROC_STATES][EVENTS] = {
        [PROC_STARTING] = {
                [EV_STARTED] = GO(PROC_RUNNING, begin_io),
                [EV_KILL] = GO(PROC_STARTING, send_kill),
        },
        [PROC_RUNNING] = {
                [EV_EXIT] = GO(PROC_EXITED, note_exit),
                [EV_EOF] = GO(PROC_DRAINED, NULL),
                [EV_KILL] = GO(PROC_RUNNING, send_kill),
        },
        [PROC_DRAINED] = {
                [EV_EXIT] = GO(PROC_EXITED, note_exit_then_close),
                [EV_KILL] = GO(PROC_DRAINED, send_kill),
        },
        [PROC_EXITED] = {
                [EV_EOF] = GO(PROC_CLOSED, note_closed),
                [EV_KILL] = GO(PROC_EXITED, NULL),
        },
        [PROC_CLOSED] = {
                [EV_KILL] = GO(PROC_CLOSED, NULL),
        },
};
#undef GO

static void happen(struct process *p, enum event ev)
{
        const struct step *step = &steps[p->state][ev];
        must(step->is_possible);
        p->state = step->next;
        if (step->act)
                step->act(p);
}

/* --- output ------------------------------------------------------------------------------------------------------- */

/* Why a read stopped. */
enum read_stop {
        STOP_FULL,    /* as much as was asked for */
        STOP_EMPTY,   /* nothing more now */
        STOP_ENDED,   /* nothing more ever */
        STOP_TROUBLE, /* the kernel has no memory just now: there may be more */
};

static enum read_stop stop_of(const struct process_stream *s, ssize_t r, int os_errno)
{
        if (r == 0)
                return STOP_ENDED;
        if (os_errno == EAGAIN)
                return STOP_EMPTY;
        if (os_errno == ENOMEM)
                return STOP_TROUBLE;
        if (os_errno != EIO) /* which is how a terminal says that nobody holds the other side */
                log_warn_r(-os_errno, "output lost", "proc=%u stream=%s", s->process->number,
                           stream_name(s->stream));
        return STOP_ENDED;
}

/* Whether there is no point in asking for more after `n` bytes that one read gave. A pipe gave all. So, nearly always, did
 * a terminal that gave a key's worth, and asking it again means waiting for the kernel's worker before the key is shown. */
static bool is_all(const struct process *p, size_t n)
{
        return !p->is_tty || (n <= TTY_KEY_BYTES && !p->is_ending);
}

/* A terminal hands out 4 KiB at a time, and a kernel worker refills it. A read that finds it empty sleeps until the worker
 * has run: two wake-ups for 4 KiB. Who writes in bulk is therefore waited for awake, for a moment; measured, that is three
 * times as fast and takes half the CPU time. */
static bool is_refilled(int terminal, uint64_t *left_us)
{
        uint64_t began_us = clock_mono_us();
        for (;;) {
                int available = 0;
                if (ioctl(terminal, FIONREAD, &available) < 0 || available > 0)
                        return true;
                uint64_t waited_us = clock_mono_us() - began_us;
                if (waited_us >= MIN(*left_us, (uint64_t)TTY_REFILL_US)) {
                        *left_us -= MIN(*left_us, waited_us);
                        return false;
                }
        }
}

/* Reads up to `max` bytes into the scratch buffer: all that is there, so that a terminal's small pieces become one
 * chunk. Returns how many. */
static size_t read_stream(struct process_stream *s, size_t max, enum read_stop *ret_stop)
{
        struct process *p = s->process;
        size_t n = 0;
        uint64_t left_us = TTY_REFILLS_US;
        *ret_stop = STOP_FULL;
        while (n < max) {
                ssize_t r = read(s->fd, p->procs->scratch + n, max - n);
                if (r > 0) {
                        bool is_first = n == 0;
                        n += (size_t)r;
                        bool is_bulk = p->is_tty && r >= TTY_BULK_BYTES && !p->is_ending;
                        if ((is_first && n < max && is_all(p, n)) ||
                            (is_bulk && !is_refilled(s->fd, &left_us))) {
                                *ret_stop = STOP_EMPTY;
                                break;
                        }
                        continue;
                }
                if (r < 0 && errno == EINTR)
                        continue;
                *ret_stop = stop_of(s, r, errno);
                break;
        }
        return n;
}

static void on_retry(void *arg)
{
        struct process_stream *s = arg;
        s->retry = timer_free(s->retry);
        process_watch_streams(s->process);
}

/* Nobody holds the terminal, but its leader lives and may open it again. Closing it would send a SIGHUP; watching it
 * would never sleep. */
static void rest(struct process_stream *s)
{
        if (!s->retry)
                s->retry = timer_new(s->process->procs->loop, on_retry, s);
        timer_start(s->retry, TTY_RETRY_MS);
        process_watch_streams(s->process);
}

/* One chunk, when there is one. */
static enum read_stop read_chunk(struct process_stream *s)
{
        struct process *p = s->process;
        enum read_stop stop;
        size_t n = read_stream(s, p->procs->chunk_bytes, &stop);
        if (n > 0) {
                uint64_t seq = take_seq(p);
                p->last_output_at_ms = clock_unix_ms();
                struct slice bytes = slice_from(p->procs->scratch, n);
                output_append(&p->output, s->stream, seq, bytes);
                p->events->output(p, s->stream, seq, bytes);
        }
        if (stop == STOP_ENDED && p->is_tty && !process_has_exited(p) && !p->is_ending)
                rest(s);
        else if (stop == STOP_ENDED)
                close_stream(s);
        return stop;
}

/* What is there now, at most EXIT_DRAIN_BYTES. A read that fails for want of memory is tried again, since nobody may
 * look at the stream later; when that does not help, the process is reported as failed. */
static void drain_stream(struct process_stream *s)
{
        size_t troubles = 0;
        for (size_t got = 0; got < EXIT_DRAIN_BYTES && s->fd >= 0;) {
                enum read_stop stop = read_chunk(s);
                if (stop == STOP_EMPTY)
                        return;
                if (stop == STOP_FULL)
                        got += s->process->procs->chunk_bytes;
                if (stop == STOP_TROUBLE && ++troubles == DRAIN_TRIES) {
                        log_error("output cannot be read", "proc=%u", s->process->number);
                        s->process->has_failed = true;
                        return;
                }
        }
}

static void drain_streams(struct process *p)
{
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                drain_stream(&p->out[i]);
}

static void tell_exit(struct process *p);

static void on_stream(void *arg, unsigned events)
{
        struct process_stream *s = arg;
        struct process *p = s->process;
        if ((events & WATCH_WRITE) && p->is_tty)
                stdin_flush(p);
        if (!(events & WATCH_READ) || s->fd < 0 || p->is_paused)
                return;
        uint64_t seq = p->next_seq;
        (void)read_chunk(s);
        bool has_ended = streams_ended(p);
        if (has_ended)
                happen(p, EV_EOF);
        if (p->settle && (has_ended || p->next_seq != seq))
                tell_exit(p);
}

/* What to watch the terminal or a pipe for, after a change of pause or of the stdin queue. */
void process_watch_streams(struct process *p)
{
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++) {
                struct process_stream *s = &p->out[i];
                if (!s->watch)
                        continue;
                unsigned events = p->is_paused || s->retry ? 0 : WATCH_READ;
                if (p->is_tty && i == 0 && p->stdin_queued > 0)
                        events |= WATCH_WRITE;
                watch_set(s->watch, events);
        }
}

int process_resize(struct process *p, uint16_t rows, uint16_t cols)
{
        if (!p->is_tty)
                return -ENOTTY;
        return p->out[0].fd < 0 ? 0 : pty_resize(p->out[0].fd, rows, cols);
}

void process_pause(struct process *p, bool paused)
{
        if (p->is_paused == paused)
                return;
        p->is_paused = paused;
        process_watch_streams(p);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void set_exit(struct process *p, int status)
{
        p->exited_mono_ms = clock_mono_ms();
        p->exit_code = -1;
        if (WIFEXITED(status)) {
                p->exit_code = WEXITSTATUS(status);
        } else if (WIFSIGNALED(status)) {
                p->exit_signal = WTERMSIG(status);
                p->exit_code = 128 + p->exit_signal;
        }
}

/* A terminal, and the streams of a killed tree, end with the root. */
static bool ends_streams(const struct process *p)
{
        return p->is_tty || p->is_killed;
}

static void tell_exit(struct process *p)
{
        p->settle = timer_free(p->settle);
        if (ends_streams(p)) {
                drain_streams(p);
                for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                        close_stream(&p->out[i]);
        }
        if (p->state == PROC_RUNNING && streams_ended(p))
                happen(p, EV_EOF);
        happen(p, EV_EXIT);
}

static void on_settled(void *arg)
{
        tell_exit(arg);
}

/* The root has ended. What it wrote is read first, so that output normally precedes the exit; unless the owner is
 * paused: the exit is never held back by a slow reader. */
static void root_ended(struct process *p)
{
        bool is_judged = p->settle_ms > 0 && p->exit_code != 0;
        p->is_ending = true;
        if ((!p->is_paused || is_judged) && !ends_streams(p))
                drain_streams(p);
        if (!is_judged || p->is_paused || streams_ended(p) || ends_streams(p)) {
                tell_exit(p);
                return;
        }
        p->settle = timer_new(p->procs->loop, on_settled, p);
        timer_start(p->settle, p->settle_ms);
}

void process_on_started(struct process *p, pid_t pid)
{
        p->pid = pid;
        p->started_at_ms = clock_unix_ms();
        happen(p, EV_STARTED);
}

void process_on_failed(struct process *p, const char *step, int os_errno)
{
        p->state = PROC_CLOSED;
        process_silence(p); /* `failed` says it all */
        p->events->failed(p, step, os_errno);
}

void process_on_exited(struct process *p, const struct spawn_exit *exit)
{
        p->exit = *exit;
        set_exit(p, exit->status);
        root_ended(p);
}

void process_on_gone(struct process *p)
{
        p->is_gone = true;
        if (p->settle) {
                drain_streams(p);
                tell_exit(p);
        }
        if (p->state == PROC_STARTING) {
                process_on_failed(p, "keeper", ESRCH);
        } else if (!process_has_exited(p)) {
                log_warn("keeper lost", "proc=%u pid=%d", p->number, (int)p->pid);
                p->is_killed = true;
                p->has_failed = true;
                p->exit_code = -1;
                root_ended(p);
        } else if (p->state == PROC_EXITED && !p->is_paused) {
                drain_streams(p); /* nobody of the tree is left to hold them */
                if (streams_ended(p))
                        happen(p, EV_EOF);
        }
        p->events->gone(p);
}

bool process_has_exited(const struct process *p)
{
        return p->state == PROC_EXITED || p->state == PROC_CLOSED;
}

void process_kill(struct process *p)
{
        if (!p->is_killed)
                happen(p, EV_KILL);
}

void process_kill_rest(struct process *p)
{
        if (!process_has_exited(p))
                process_kill(p);
        else if (!p->is_gone) {
                procs_kill(p);
        }
}

void process_signal(struct process *p, int signo, enum spawn_scope scope)
{
        procs_signal(p, signo, scope);
}

/* --- the start ---------------------------------------------------------------------------------------------------- */

struct child_ends {
        int in, out, err;
};

static void child_ends_close(struct child_ends *ends)
{
        fd_close(ends->in);
        if (ends->out != ends->in)
                fd_close(ends->out);
        if (ends->err != ends->out)
                fd_close(ends->err);
}

static int open_terminal(struct process *p, const struct process_request *req, struct child_ends *ret)
{
        int slave;
        int r = pty_open(req->rows, req->cols, &p->out[0].fd, &slave);
        if (r < 0)
                return r;
        p->stdin_fd = p->out[0].fd;
        *ret = (struct child_ends){ slave, slave, slave };
        return 0;
}

/* Ours of the output pipes become non-blocking when they are watched; the child's ends block, as programs expect. */
static int open_output(int *ret_ours, int *ret_childs)
{
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_ours = fds[0];
        *ret_childs = fds[1];
        return 0;
}

static int open_input(int *ret_ours, int *ret_childs)
{
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_childs = fds[0];
        *ret_ours = fds[1];
        return fd_set_nonblock(fds[1], true);
}

static int open_pipes(struct process *p, const struct process_request *req, struct child_ends *ret)
{
        int r = 0;
        *ret = (struct child_ends){ -1, -1, -1 };
        if (req->pipe_stdin)
                r = open_input(&p->stdin_fd, &ret->in);
        if (r == 0)
                r = open_output(&p->out[0].fd, &ret->out);
        if (r == 0)
                r = open_output(&p->out[1].fd, &ret->err);
        if (r < 0)
                child_ends_close(ret);
        return r;
}

static struct process *process_new(struct procs *ps, const struct process_events *events, void *owner)
{
        struct process *p = mem_new(struct process);
        p->procs = ps;
        p->events = events;
        p->owner = owner;
        p->state = PROC_STARTING;
        p->next_seq = 1;
        p->exit_code = -1;
        p->stdin_fd = -1;
        list_init(&p->stdin_queue);
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                p->out[i] = (struct process_stream){ .process = p,
                                                     .stream = i ? STREAM_STDERR : STREAM_STDOUT,
                                                     .fd = -1 };
        output_init(&p->output, ps->retained_cap, &ps->retained_total);
        return p;
}

void process_silence(struct process *p)
{
        p->stdin_open = false; /* the owner asked for it: it is not told */
        stdin_close(p);
        p->settle = timer_free(p->settle);
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                close_stream(&p->out[i]);
}

struct process *process_free(struct process *p)
{
        if (!p)
                return NULL;
        process_silence(p);
        output_release(&p->output);
        free(p);
        return NULL;
}

struct process *process_start(struct procs *ps, const struct process_request *req,
                              const struct process_events *events, void *owner, struct err *err)
{
        struct process *p = process_new(ps, events, owner);
        p->is_tty = req->is_tty;
        p->settle_ms = req->settle_ms;
        p->stdin_open = p->had_stdin = req->is_tty || req->pipe_stdin;
        if (req->is_tty)
                p->out[0].stream = STREAM_PTY;

        struct child_ends ends;
        int r = req->is_tty ? open_terminal(p, req, &ends) : open_pipes(p, req, &ends);
        if (r == 0) {
                struct spawn_request start = {
                        .argv = req->argv,
                        .env = req->env,
                        .candidates = req->candidates,
                        .cwd = req->cwd,
                        .stdin_fd = ends.in >= 0 ? ends.in : ps->null_fd,
                        .stdout_fd = ends.out,
                        .stderr_fd = ends.err,
                        .is_tty = req->is_tty,
                        .limits = req->limits,
                        .wants_cgroup = true,
                        .has_image = req->has_image,
                        .image_fd = req->image_fd,
                        .whose = req->whose,
                        .helpers = req->helpers,
                };
                r = procs_add(ps, p, &start);
                child_ends_close(&ends);
        }
        if (r < 0) {
                process_free(p);
                err_set(err, 0, r, "%s", errno_text(r));
                err->step = req->is_tty ? "pty" : "stdio";
                err->os_errno = -r;
                return NULL;
        }
        return p;
}

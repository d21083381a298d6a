/* streams: reads the output of a command from its pipes or its terminal.
 *
 * Bytes are read as they come, one chunk per turn of the loop, numbered, retained and handed to the owner. A terminal gives
 * little at a time, and reports its end when more may still follow: most of this file is about that. What the end of a stream
 * means for the process is decided in process.c, which calls in here when a stream is ready and when the root has ended.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "proc/process_internal.h"
#include "proc/pty.h"
#include "spawner/pipe_watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* At an exit the rest of a stream is read at once, at most this much: the largest size of a pipe. So nothing that the root wrote
 * is late, and a child that goes on writing cannot delay the exit. */
#define EXIT_DRAIN_BYTES MIB

#define TTY_RETRY_MS 100
#define DRAIN_TRIES 1000
#define TTY_KEY_BYTES 64    /* a first read of at most this many bytes is a key, an echo or a prompt */
#define TTY_BULK_BYTES 2048 /* a read of this many bytes means that the command writes in bulk */
#define TTY_REFILL_US 50    /* the longest wait for one refill of a terminal */
#define TTY_REFILLS_US 400  /* the longest wait for all refills of one chunk */

void stream_close(struct process_stream *s)
{
        s->watch = watch_free(s->watch);
        s->retry = timer_free(s->retry);
        if (s->fd >= 0)
                s->fd = pipe_watch_close(s->process->number, s->fd);
}

bool streams_ended(const struct process *p)
{
        return p->out[0].fd < 0 && p->out[1].fd < 0;
}

/* Returns whether there is more to read. The streams of a process that has ended are not read again, so an error that passes must
 * not be taken for the end of the stream. */
static bool has_more(const struct process_stream *s)
{
        struct pollfd fd = { .fd = s->fd, .events = POLLIN };
        return poll(&fd, 1, 0) < 0 || (fd.revents & POLLIN);
}

static enum read_stop stop_of(const struct process_stream *s, ssize_t r, int os_errno)
{
        struct process *p = s->process;
        if (r == 0)
                return STOP_ENDED;
        if (os_errno == ENOMEM)
                return STOP_TROUBLE;
        /* A terminal returns EIO when no process has its other side open. */
        if (os_errno == EAGAIN || (os_errno == EIO && p->is_tty)) {
                if (p->is_ending && has_more(s))
                        return STOP_TROUBLE;
                return os_errno == EAGAIN ? STOP_EMPTY : STOP_ENDED;
        }
        log_warn_r(-os_errno, "output lost", "proc=%u stream=%s", p->number, stream_name(s->stream));
        p->has_lost_output = true;
        return STOP_ENDED;
}

/* Returns whether a read of `n` bytes has emptied the stream, so that no other read is needed. A pipe gives all that it has. A
 * terminal that gives no more than a key nearly always had no more, and another read would wait for the kernel's worker before the
 * key is shown. */
static bool has_emptied(const struct process *p, size_t n)
{
        return !p->is_tty || (n <= TTY_KEY_BYTES && !p->is_ending);
}

/* Waits, for a moment and without sleeping, until the terminal has more to read. A terminal gives 4 KiB at a time, and a kernel
 * worker refills it. A read that finds it empty sleeps until the worker has run: two wake-ups for 4 KiB. When a command writes
 * in bulk, to wait without sleeping was measured to be three times as fast, with half the CPU time. */
static bool await_refill(int terminal, uint64_t *left_us)
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

/* Reads up to `max` bytes into the scratch buffer: all that is there, so that the small pieces of a terminal become one
 * chunk. Returns how many. */
static size_t read_stream(struct process_stream *s, size_t max, enum read_stop *ret_stop)
{
        struct process *p = s->process;
        size_t n = 0;
        uint64_t left_us = TTY_REFILLS_US;
        *ret_stop = STOP_FULL;
        pipe_watch_begin(p->number);
        while (n < max) {
                ssize_t r = read(s->fd, p->procs->scratch + n, max - n);
                if (r > 0) {
                        bool is_first = n == 0;
                        n += (size_t)r;
                        bool is_bulk = p->is_tty && r >= TTY_BULK_BYTES && !p->is_ending;
                        if ((is_first && n < max && has_emptied(p, n)) ||
                            (is_bulk && !await_refill(s->fd, &left_us))) {
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
        pipe_watch_end();
        return n;
}

static void on_retry(void *arg)
{
        struct process_stream *s = arg;
        s->retry = timer_free(s->retry);
        process_watch_streams(s->process);
}

void stream_watch_later(struct process_stream *s)
{
        if (!s->retry)
                s->retry = timer_new(s->process->procs->loop, on_retry, s);
        timer_start(s->retry, TTY_RETRY_MS);
        process_watch_streams(s->process);
}

enum read_stop stream_read_chunk(struct process_stream *s)
{
        struct process *p = s->process;
        enum read_stop stop;
        size_t n = read_stream(s, p->procs->chunk_bytes, &stop);
        if (n > 0) {
                uint64_t seq = p->next_seq++;
                p->last_output_at_ms = clock_unix_ms();
                struct slice bytes = slice_from(p->procs->scratch, n);
                output_append(&p->output, s->stream, seq, bytes);
                p->events->output(p, s->stream, seq, bytes);
        }
        if (stop == STOP_ENDED && p->is_tty && !process_has_exited(p) && !p->is_ending)
                stream_watch_later(s);
        else if (stop == STOP_ENDED)
                stream_close(s);
        return stop;
}

/* Reads what is there now, at most EXIT_DRAIN_BYTES. A read that fails for lack of memory is repeated, since the stream may not be
 * read again; when that does not help, the client is told that output was lost. */
static void drain_stream(struct process_stream *s)
{
        size_t troubles = 0;
        for (size_t got = 0; got < EXIT_DRAIN_BYTES && s->fd >= 0;) {
                enum read_stop stop = stream_read_chunk(s);
                if (stop == STOP_EMPTY)
                        return;
                if (stop == STOP_FULL)
                        got += s->process->procs->chunk_bytes;
                if (stop == STOP_TROUBLE && ++troubles == DRAIN_TRIES) {
                        log_error("output cannot be read", "proc=%u", s->process->number);
                        s->process->has_lost_output = true;
                        return;
                }
        }
}

void streams_drain(struct process *p)
{
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                drain_stream(&p->out[i]);
}

void process_watch_streams(struct process *p)
{
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++) {
                struct process_stream *s = &p->out[i];
                if (!s->watch || p->state == PROC_STARTING)
                        continue;
                unsigned events = p->is_paused ? 0 : WATCH_READ;
                if (p->is_tty && i == 0 && p->stdin_queued > 0)
                        events |= WATCH_WRITE;
                watch_set(s->watch, s->retry ? 0 : events);
        }
}

int process_resize(struct process *p, uint16_t rows, uint16_t cols)
{
        if (!p->is_tty)
                return -ENOTTY;
        if (p->state == PROC_STARTING) {
                p->rows = rows;
                p->cols = cols;
        }
        if (p->out[0].fd < 0)
                return 0;
        pipe_watch_begin(p->number);
        int r = pty_resize(p->out[0].fd, rows, cols);
        pipe_watch_end();
        return r;
}

void process_pause(struct process *p, bool paused)
{
        if (p->is_paused == paused)
                return;
        p->is_paused = paused;
        process_watch_streams(p);
}

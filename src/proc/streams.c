/* streams: the output of a command, read from its pipes or its terminal.
 *
 * Bytes are taken as they come, one chunk a turn, numbered, retained and handed to the owner. A terminal gives little at a
 * time, and says that it has ended while it may yet go on: most of what is here is about that. What the end of a stream
 * means for the process is decided in process.c, which calls in here when a stream is ready and when the root has ended.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "proc/process_internal.h"
#include "proc/pty.h"

#include <errno.h>
#include <sys/ioctl.h>
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

void stream_close(struct process_stream *s)
{
        s->watch = watch_free(s->watch);
        s->retry = timer_free(s->retry);
        s->fd = fd_close(s->fd);
}

bool streams_ended(const struct process *p)
{
        return p->out[0].fd < 0 && p->out[1].fd < 0;
}

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
                uint64_t seq = process_take_seq(p);
                p->last_output_at_ms = clock_unix_ms();
                struct slice bytes = slice_from(p->procs->scratch, n);
                output_append(&p->output, s->stream, seq, bytes);
                p->events->output(p, s->stream, seq, bytes);
        }
        if (stop == STOP_ENDED && p->is_tty && !process_has_exited(p) && !p->is_ending)
                rest(s);
        else if (stop == STOP_ENDED)
                stream_close(s);
        return stop;
}

void stream_read_chunk(struct process_stream *s)
{
        (void)read_chunk(s);
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

void streams_drain(struct process *p)
{
        for (size_t i = 0; i < ARRAY_LEN(p->out); i++)
                drain_stream(&p->out[i]);
}

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

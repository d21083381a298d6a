/* stdin: writes to the stdin of a command, and queues what it does not take yet.
 *
 * Bytes are written at once when the descriptor takes them; the rest is queued, up to LIMIT_STDIN_BYTES plus one write.
 * A terminal's input goes through its master, whose watch belongs to its output.
 */
#include "base/limits.h"
#include "base/mem.h"
#include "proc/process_internal.h"
#include "spawner/pipe_watch.h"

#include <errno.h>
#include <termios.h>
#include <unistd.h>

/* Failed writes in a row after which stdin is given up. They follow each other fast, because the loop reports the descriptor
 * ready. */
#define FAILURES_MAX 1000

struct piece {
        struct list link; /* process::stdin_queue */
        const char *bytes;
        size_t n, done;
        struct arena kept; /* the arena with the bytes, when they were not copied */
        size_t beyond;     /* how many other bytes the arena has, which are counted in stdin_total, too */
        char copy[];
};

static void on_writable(void *arg, UNUSED unsigned events)
{
        stdin_flush(arg);
}

/* Watches for room exactly while something is queued. Can fail only when the queue was empty before. */
static int watch_for_room(struct process *p)
{
        unsigned events = p->stdin_queued > 0 ? WATCH_WRITE : 0;
        if (p->is_tty)
                process_watch_streams(p);
        else if (p->stdin_watch)
                watch_set(p->stdin_watch, events);
        else if (events)
                return watch_new(p->procs->loop, p->stdin_fd, events, on_writable, p, &p->stdin_watch);
        return 0;
}

/* Closes stdin. The result of the owner's call says so, and stdin_moved must not be called from inside of that call. */
static int close_after_failed_write(struct process *p)
{
        p->is_stdin_open = false;
        stdin_close(p);
        return -EPIPE;
}

/* Writes to stdin. Returns how many bytes were taken; 0 when there is no room; or -errno when the input will never be read: EPIPE
 * from a pipe and EIO from a terminal. Any other error also counts as no room, until it has come FAILURES_MAX times. */
static ssize_t try_write(struct process *p, struct slice s)
{
        for (;;) {
                pipe_watch_begin(p->number);
                ssize_t r = write(p->stdin_fd, s.p, s.n);
                pipe_watch_end();
                if (r >= 0) {
                        p->stdin_failures = 0;
                        return r;
                }
                if (errno == EAGAIN || errno == ENOMEM)
                        return 0;
                if (errno == EPIPE || (errno == EIO && p->is_tty) || ++p->stdin_failures == FAILURES_MAX)
                        return -errno;
                if (errno != EINTR)
                        return 0;
        }
}

/* Queues the bytes: copies them, or takes the arena that they lie in. */
static void queue_rest(struct process *p, struct slice s, struct arena *kept)
{
        struct piece *piece = mem_alloc(sizeof(*piece) + (kept ? 0 : s.n));
        *piece = (struct piece){ .n = s.n, .bytes = kept ? s.p : piece->copy };
        if (kept) {
                piece->kept = *kept;
                piece->beyond = kept->bytes - MIN(s.n, kept->bytes);
                *kept = ARENA_INIT;
        } else {
                memcpy(piece->copy, s.p, s.n);
        }
        list_append(&p->stdin_queue, &piece->link);
        p->stdin_queued += s.n;
        p->procs->stdin_total += s.n + piece->beyond;
}

static void piece_free(struct process *p, struct piece *piece)
{
        struct procs *ps = p->procs;
        list_remove(&piece->link);
        ps->stdin_total -= piece->beyond;
        if (ps->free_arena)
                ps->free_arena(ps->free_arg, &piece->kept);
        arena_release(&piece->kept);
        free(piece);
}

/* Returns the character that ends the input of a terminal; 0 when the terminal is raw or has none. */
static char end_of_file_of(const struct process *p)
{
        struct termios t;
        pipe_watch_begin(p->number);
        int r = tcgetattr(p->stdin_fd, &t);
        pipe_watch_end();
        if (r < 0 || !(t.c_lflag & ICANON) || t.c_cc[VEOF] == _POSIX_VDISABLE)
                return 0;
        return (char)t.c_cc[VEOF];
}

enum stdin_close process_close_stdin(struct process *p)
{
        if (!p->had_stdin)
                return STDIN_NEVER_OPEN;
        if (!p->is_stdin_open || p->is_stdin_ending)
                return STDIN_ALREADY_CLOSED;
        char end = p->is_tty ? end_of_file_of(p) : 0;
        if (p->is_tty && !end)
                return STDIN_HAS_NO_END;
        p->is_stdin_ending = true;
        if (p->is_tty) {
                queue_rest(p, slice_from(&end, 1), NULL); /* written when the loop reports room */
                (void)watch_for_room(p);
                return STDIN_NOW_CLOSED;
        }
        if (p->stdin_queued == 0) {
                p->is_stdin_open = false; /* the owner asked for it, so stdin_moved is not called */
                stdin_close(p);
        }
        return STDIN_NOW_CLOSED;
}

int process_write_kept(struct process *p, struct slice bytes, struct arena *kept)
{
        uint64_t held = kept ? MAX(bytes.n, kept->bytes) : bytes.n;
        uint64_t left = LIMIT_STDIN_TOTAL_BYTES - MIN(p->procs->stdin_total, LIMIT_STDIN_TOTAL_BYTES);
        if (!p->is_stdin_open || p->is_stdin_ending)
                return -EPIPE;
        if (p->stdin_queued >= LIMIT_STDIN_BYTES)
                return -EAGAIN;
        if (held > left && (p->stdin_queued > 0 || held > LIMIT_STDIN_FREE_BYTES))
                return -ENOBUFS;
        if (p->stdin_queued == 0 && bytes.n > 0) {
                ssize_t r = try_write(p, bytes);
                if (r < 0)
                        return close_after_failed_write(p);
                bytes = slice_from(bytes.p + r, bytes.n - (size_t)r);
        }
        if (bytes.n > 0) {
                queue_rest(p, bytes, kept);
                if (watch_for_room(p) < 0)
                        return close_after_failed_write(p);
        }
        return 0;
}

void stdin_flush(struct process *p)
{
        bool was_full = p->stdin_queued >= LIMIT_STDIN_BYTES;
        struct piece *piece;
        while (p->is_stdin_open && (piece = list_first(&p->stdin_queue, struct piece, link))) {
                ssize_t r = try_write(p, slice_from(piece->bytes + piece->done, piece->n - piece->done));
                if (r < 0) {
                        stdin_close(p);
                        return;
                }
                if (r == 0)
                        break;
                piece->done += (size_t)r;
                p->stdin_queued -= (size_t)r;
                p->procs->stdin_total -= (size_t)r;
                if (piece->done == piece->n)
                        piece_free(p, piece);
        }
        if (p->is_stdin_ending && p->stdin_queued == 0 && !p->is_tty) {
                stdin_close(p);
                return;
        }
        (void)watch_for_room(p);
        if (was_full && p->stdin_queued < LIMIT_STDIN_BYTES)
                p->events->stdin_moved(p);
}

void stdin_refuse(struct process *p)
{
        struct piece *piece;
        list_each (piece, &p->stdin_queue, link)
                piece_free(p, piece);
        p->procs->stdin_total -= p->stdin_queued;
        p->stdin_queued = 0;
        p->stdin_watch = watch_free(p->stdin_watch);
        if (!p->is_stdin_open)
                return;
        p->is_stdin_open = false;
        process_watch_streams(p);
        p->events->stdin_moved(p);
}

void stdin_close(struct process *p)
{
        stdin_refuse(p);
        if (p->is_tty)
                p->stdin_fd = -1; /* the terminal itself belongs to out[0] */
        else if (p->stdin_fd >= 0)
                p->stdin_fd = pipe_watch_close(p->number, p->stdin_fd);
}

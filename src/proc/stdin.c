/* stdin: what waits to be read by a child.
 *
 * Bytes are written at once when the descriptor takes them; the rest is queued, up to LIMIT_STDIN_BYTES plus one write.
 * A terminal's input goes through its master, whose watch belongs to its output.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "proc/process_internal.h"

#include <errno.h>
#include <termios.h>
#include <unistd.h>

struct piece {
        struct list link; /* process::stdin_queue */
        size_t n, done;
        char bytes[];
};

static void on_writable(void *arg, UNUSED unsigned events)
{
        stdin_flush(arg);
}

/* Watches for room exactly while something waits. */
static void watch_for_room(struct process *p)
{
        if (p->is_tty) {
                process_watch_streams(p);
                return;
        }
        if (!p->stdin_watch && p->stdin_queued > 0)
                p->stdin_watch = watch_new(p->procs->loop, p->stdin_fd, on_writable, p);
        if (p->stdin_watch)
                watch_set(p->stdin_watch, p->stdin_queued > 0 ? WATCH_WRITE : 0);
}

/* Bytes taken; 0 when there is no room; -errno when nobody will ever read. */
static ssize_t try_write(struct process *p, struct slice s)
{
        for (;;) {
                ssize_t r = write(p->stdin_fd, s.p, s.n);
                if (r >= 0)
                        return r;
                if (errno == EAGAIN || errno == ENOMEM)
                        return 0;
                if (errno != EINTR)
                        return -errno;
        }
}

static void queue_rest(struct process *p, struct slice s)
{
        struct piece *piece = mem_alloc(sizeof(*piece) + s.n);
        *piece = (struct piece){ .n = s.n };
        memcpy(piece->bytes, s.p, s.n);
        list_append(&p->stdin_queue, &piece->link);
        p->stdin_queued += s.n;
        p->procs->stdin_total += s.n;
}

/* What a terminal's line discipline takes for the end of input; 0 when it is raw or has none. */
static char end_of_file_of(int terminal)
{
        struct termios t;
        if (tcgetattr(terminal, &t) < 0 || !(t.c_lflag & ICANON) || t.c_cc[VEOF] == _POSIX_VDISABLE)
                return 0;
        return (char)t.c_cc[VEOF];
}

enum stdin_close process_close_stdin(struct process *p)
{
        if (!p->had_stdin)
                return STDIN_NEVER_OPEN;
        if (!p->stdin_open || p->stdin_ends)
                return STDIN_ALREADY_CLOSED;
        if (p->is_tty) {
                char end = end_of_file_of(p->stdin_fd);
                if (end)
                        queue_rest(p, slice_from(&end,
                                                 1)); /* behind what waits; written when the loop says so */
        }
        p->stdin_ends = true;
        if (p->is_tty) {
                watch_for_room(p);
                return STDIN_NOW_CLOSED;
        }
        if (p->stdin_queued == 0) {
                p->stdin_open = false; /* the owner asked: it is not told */
                stdin_close(p);
        }
        return STDIN_NOW_CLOSED;
}

int process_write(struct process *p, struct slice bytes)
{
        if (!p->stdin_open || p->stdin_ends)
                return -EPIPE;
        if (p->stdin_queued >= LIMIT_STDIN_BYTES)
                return -EAGAIN;
        if (bytes.n > LIMIT_STDIN_TOTAL_BYTES - MIN(p->procs->stdin_total, LIMIT_STDIN_TOTAL_BYTES))
                return -ENOBUFS;
        if (p->stdin_queued == 0 && bytes.n > 0) {
                ssize_t r = try_write(p, bytes);
                if (r < 0) {
                        p->stdin_open =
                                false; /* our answer says it: no stdin_moved from inside the owner's call */
                        stdin_close(p);
                        return -EPIPE;
                }
                bytes = slice_from(bytes.p + r, bytes.n - (size_t)r);
        }
        if (bytes.n > 0) {
                queue_rest(p, bytes);
                watch_for_room(p);
        }
        return 0;
}

void stdin_flush(struct process *p)
{
        bool was_full = p->stdin_queued >= LIMIT_STDIN_BYTES;
        struct piece *piece;
        while (p->stdin_open && (piece = list_first(&p->stdin_queue, struct piece, link))) {
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
                if (piece->done == piece->n) {
                        list_remove(&piece->link);
                        free(piece);
                }
        }
        if (p->stdin_ends && p->stdin_queued == 0 && !p->is_tty) {
                stdin_close(p);
                return;
        }
        watch_for_room(p);
        if (was_full && p->stdin_queued < LIMIT_STDIN_BYTES)
                p->events->stdin_moved(p);
}

void stdin_refuse(struct process *p)
{
        struct piece *piece;
        list_each (piece, &p->stdin_queue, link) {
                list_remove(&piece->link);
                free(piece);
        }
        p->procs->stdin_total -= p->stdin_queued;
        p->stdin_queued = 0;
        p->stdin_watch = watch_free(p->stdin_watch);
        if (!p->stdin_open)
                return;
        p->stdin_open = false;
        process_watch_streams(p);
        p->events->stdin_moved(p);
}

void stdin_close(struct process *p)
{
        stdin_refuse(p);
        if (p->is_tty)
                p->stdin_fd = -1; /* the terminal itself belongs to out[0] */
        else
                p->stdin_fd = fd_close(p->stdin_fd);
}

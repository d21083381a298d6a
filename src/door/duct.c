/* duct: moves bytes from one descriptor to another. */
#include "door/duct.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

/* The sum of what a duct holds at most: the bytes that wait, as many that are written but not yet removed by tidy(), what `turn` makes
 * of one read, and some room for duct_put. */
#define BUF_MAX (2 * DUCT_BYTES + DUCT_TURNED_BYTES + 128 * 1024)

void duct_init(struct duct *d, int from, int to)
{
        *d = (struct duct){ .from = from, .to = to, .bytes = BUF_INIT(BUF_MAX) };
}

void duct_release(struct duct *d)
{
        buf_release(&d->bytes);
}

/* Removes the bytes that are written, once they are as many as those that wait. A duct that never runs empty would grow otherwise. */
static void tidy(struct duct *d)
{
        if (d->at < duct_waiting(d))
                return;
        buf_consume(&d->bytes, d->at);
        d->at = 0;
}

int duct_put(struct duct *d, struct slice bytes)
{
        tidy(d);
        return buf_append(&d->bytes, bytes);
}

static void give_up(struct duct *d)
{
        d->has_ended = d->is_over = d->is_cut = true;
        buf_truncate(&d->bytes, 0);
        d->at = 0;
}

/* Passes the end on to `to` once all bytes are written. A pipe or a terminal cannot be shut: its reader sees the end when the program
 * closes it. */
static void finish(struct duct *d)
{
        if (d->is_over || !d->has_ended || duct_waiting(d) > 0)
                return;
        if (!d->is_end_kept)
                (void)shutdown(d->to, SHUT_WR);
        d->is_over = true;
}

static void take(struct duct *d)
{
        char piece[DUCT_READ_BYTES];
        ssize_t n = read(d->from, piece, sizeof(piece));
        if (n < 0 && (errno == EINTR || fd_is_passing(errno)))
                return;
        if (n <= 0) {
                d->has_ended = true; /* a broken connection counts as ended */
                return;
        }
        tidy(d);
        if (d->turn ? d->turn(d->arg, piece, (size_t)n, &d->bytes) < 0
                    : buf_append(&d->bytes, slice_from(piece, (size_t)n)) < 0)
                d->has_ended = true;
}

/* Writes once. A pipe that poll calls writable takes PIPE_BUF bytes without blocking. */
static ssize_t put(int fd, const char *p, size_t n)
{
        ssize_t written = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        return written < 0 && errno == ENOTSOCK ? write(fd, p, MIN(n, (size_t)PIPE_BUF)) : written;
}

static void give(struct duct *d)
{
        ssize_t n = put(d->to, d->bytes.p + d->at, duct_waiting(d));
        if (n < 0 && errno != EINTR && !fd_is_passing(errno))
                give_up(d);
        else if (n > 0)
                d->at += (size_t)n;
}

/* Fills in what poll shall look at. A descriptor that we are not ready for is left out: poll would report its end again and again. */
static void ask(const struct duct *d, struct pollfd ret[2])
{
        bool reads = !d->has_ended && duct_waiting(d) < DUCT_BYTES;
        ret[0] = (struct pollfd){ .fd = reads ? d->from : -1, .events = POLLIN };
        /* Without events poll still reports that nobody reads any more. */
        ret[1] =
                (struct pollfd){ .fd = d->is_over ? -1 : d->to, .events = duct_waiting(d) > 0 ? POLLOUT : 0 };
}

static void on_ready(struct duct *d, const struct pollfd asked[2])
{
        if (asked[0].revents)
                take(d);
        if (asked[1].revents & POLLOUT)
                give(d);
        else if (asked[1].revents)
                give_up(d);
        finish(d);
}

int duct_pair_run(struct duct *there, struct duct *back)
{
        uint64_t end = 0; /* when `back` is given up; set once `there` is over */
        for (;;) {
                struct pollfd asked[4];
                finish(there);
                finish(back);
                if (back->is_over)
                        return 0;
                ask(there, asked);
                ask(back, asked + 2);
                uint64_t now = clock_mono_ms();
                if (there->is_over && end == 0)
                        end = now + DUCT_QUIET_MS;
                if (end > 0 && now >= end)
                        return -ETIMEDOUT;
                int n = poll(asked, ARRAY_LEN(asked), end > 0 ? (int)(end - now) : -1);
                if (n < 0 && errno != EINTR && errno != EAGAIN)
                        return -errno;
                if (n <= 0)
                        continue;
                on_ready(there, asked);
                on_ready(back, asked + 2);
                if (end > 0)
                        end = clock_mono_ms() + DUCT_QUIET_MS;
        }
}

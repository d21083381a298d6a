/* spawn_packet: sends orders to the spawner, and queues those that have to wait.
 *
 * One order is one packet, with its strings and descriptors. It is sent at once when the socket takes it and no other waits
 * before it; otherwise it is queued, with duplicates of the descriptors, so that the caller may close its own.
 *
 * There are three reasons to wait. A start has to wait for its turn (spawn_pace.c). Or the socket is full: then everything waits
 * behind the first packet, in its order, until there is room, however long that takes. Or the kernel passes no descriptors on,
 * because commands of this user keep too many in flight (ETOOMANYREFS). Then the descriptors are lent (keeper/lend.h), if
 * possible. Otherwise the starts wait, and only they. The socket is writable, and nothing tells when descriptors can be passed on
 * again, so the starts are retried after a moment, and fail after LIMIT_HANDOVER_MS.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "proc/spawn_internal.h"
#include "spawner/pipe_watch.h"

#include <errno.h>
#include <fcntl.h>

/* A packet that could not be sent. */
struct packet {
        struct list link;        /* spawner::waiting, spawner::queue, spawner::refused or spawner::lent */
        struct spawned *spawned; /* the command of a start, else NULL */
        uint64_t refused_ms;     /* when the kernel first refused it */
        bool was_returned;       /* the spawner could not open what was lent */
        struct spawn_order order;
        int fds[SPAWN_FDS_MAX]; /* duplicates, to be closed */
        size_t fd_count;
        size_t n; /* bytes of the strings behind the order */
        char bytes[];
};

void packet_drop(struct packet *p)
{
        list_remove(&p->link);
        for (size_t i = 0; i < p->fd_count; i++)
                (void)pipe_watch_close(p->order.number, p->fds[i]); /* a command may hold the pipe's lock */
        free(p);
}

void packets_clear(struct spawner *s)
{
        struct list *const lists[] = { &s->waiting, &s->queue, &s->refused, &s->lent };
        struct packet *p;
        for (size_t i = 0; i < ARRAY_LEN(lists); i++)
                list_each (p, lists[i], link)
                        packet_drop(p);
}

/* ---- sending packets ---- */

/* When the kernel refuses to pass one descriptor on, it refuses all: its count does not depend on the number in this packet. */
static int order_send(struct spawner *s, const struct spawn_order *order, struct slice strings,
                      const int fds[], size_t fd_count)
{
        if (fd_count > 0 && !list_is_empty(&s->refused))
                return -ETOOMANYREFS;
        return spawn_packet_send(s->socket, order, strings, fds, fd_count);
}

/* Returns whether the error means that the spawner is gone, which spawn_on_ready will notice. Any other error concerns the packet
 * only. */
static bool is_the_end(int r)
{
        return r == -EPIPE || r == -ECONNRESET || r == -ENOTCONN;
}

/* To be called when the packet was sent, or will never be sent: `r` says which. */
static void packet_finish(struct spawner *s, struct packet *p, int r)
{
        if (p->spawned && (r >= 0 || is_the_end(r)))
                spawned_sent(s, p->spawned);
        else if (p->spawned)
                spawned_give_up(s, p->spawned, -r);
        else
                packet_drop(p);
}

/* Sends a start without its descriptors, which the spawner opens by itself; returns false when that is not possible. The
 * descriptors have to stay open until the spawner reports something about the start. */
static bool packet_lend(struct spawner *s, struct packet *p)
{
        /* A socket cannot be lent. */
        if (p->was_returned || p->order.is_intercepted || p->order.inlets.count > 0)
                return false;
        size_t programs = p->fd_count - (p->order.has_bwrap ? SPAWN_PROGRAMS : 0);
        for (size_t i = 0; i < p->fd_count; i++) {
                enum lend_kind kind = i < SPAWN_STDIO ? LEND_STDIO
                                      : i < programs  ? LEND_MEMORY
                                                      : LEND_PROGRAM;
                if (lend_describe(p->fds[i], kind, &p->order.lent[i]) < 0)
                        return false;
        }
        p->order.lent_count = (uint32_t)p->fd_count;
        bool is_sent = spawn_packet_send(s->socket, &p->order, slice_from(p->bytes, p->n), NULL, 0) == 0;
        p->order.lent_count = 0; /* in case the order is returned */
        if (!is_sent)
                return false;
        p->spawned->is_lent = true;
        list_remove(&p->link);
        list_append(&s->lent, &p->link);
        return true;
}

static void packet_refuse(struct spawner *s, struct packet *p)
{
        if (packet_lend(s, p))
                return;
        uint64_t now_ms = clock_mono_ms();
        if (list_is_empty(&s->refused))
                s->retry_at_ms = now_ms + LIMIT_HANDOVER_RETRY_MS;
        p->refused_ms = now_ms;
        list_remove(&p->link);
        list_append(&s->refused, &p->link);
}

void packet_returned(struct spawner *s, struct packet *p)
{
        p->was_returned = true;
        packet_refuse(s, p);
}

static void queue_send(struct spawner *s)
{
        struct packet *p;
        while ((p = list_first(&s->queue, struct packet, link))) {
                int r = order_send(s, &p->order, slice_from(p->bytes, p->n), p->fds, p->fd_count);
                if (r == -EAGAIN)
                        return;
                if (r == -ETOOMANYREFS)
                        packet_refuse(s, p);
                else
                        packet_finish(s, p, r);
        }
}

static void refused_give_up(struct spawner *s, uint64_t now_ms)
{
        struct packet *p;
        while ((p = list_first(&s->refused, struct packet, link)) &&
               now_ms - p->refused_ms >= LIMIT_HANDOVER_MS)
                spawned_give_up(s, p->spawned, ETOOMANYREFS);
}

static void refused_send(struct spawner *s)
{
        uint64_t now_ms = clock_mono_ms();
        struct packet *p;
        if (now_ms < s->retry_at_ms)
                return;
        s->retry_at_ms = now_ms + LIMIT_HANDOVER_RETRY_MS;
        while ((p = list_first(&s->refused, struct packet, link))) {
                int r = spawn_packet_send(s->socket, &p->order, slice_from(p->bytes, p->n), p->fds,
                                          p->fd_count);
                if (r == -ETOOMANYREFS && packet_lend(s, p))
                        continue;
                if (r == -ETOOMANYREFS)
                        refused_give_up(s, now_ms);
                if (r == -ETOOMANYREFS || r == -EAGAIN)
                        return;
                packet_finish(s, p, r);
        }
}

static void waiting_send(struct spawner *s)
{
        struct packet *p;
        while (pace_may_start(s) && (p = list_first(&s->waiting, struct packet, link))) {
                pace_sent(s, p->spawned);
                list_remove(&p->link);
                list_append(&s->queue, &p->link);
        }
}

void packets_send(struct spawner *s)
{
        pace_tick(s);
        waiting_send(s);
        refused_send(s);
        queue_send(s);
}

/* Appends a packet to `where`. Returns 0, or -errno when a descriptor cannot be duplicated. */
static int packet_add(const struct spawn_order *order, struct slice strings, const int fds[], size_t fd_count,
                      struct spawned *c, struct list *where)
{
        struct packet *p = mem_zalloc(sizeof(*p) + strings.n);
        list_init(&p->link);
        p->order = *order;
        p->n = strings.n;
        if (strings.n > 0)
                memcpy(p->bytes, strings.p, strings.n);
        for (size_t i = 0; i < fd_count; i++) {
                int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
                if (fd < 0) {
                        int r = -errno;
                        packet_drop(p);
                        return r;
                }
                p->fds[p->fd_count++] = fd;
        }
        p->spawned = c;
        if (c)
                c->start = p;
        list_append(where, &p->link);
        return 0;
}

/* Returns false when the start has to wait for its turn, and was queued. A start that cannot be queued, because its descriptors
 * cannot be duplicated, is sent at once. */
static bool start_begins(struct spawner *s, const struct spawn_order *order, struct slice strings,
                         const int fds[], size_t fd_count, struct spawned *c)
{
        bool must_wait = !list_is_empty(&s->waiting) || !pace_may_start(s);
        if (must_wait && packet_add(order, strings, fds, fd_count, c, &s->waiting) == 0)
                return false;
        pace_sent(s, c);
        return true;
}

int packet_put(struct spawner *s, const struct spawn_order *order, struct slice strings, const int fds[],
               size_t fd_count, struct spawned *c)
{
        if (s->is_lost || (c && !start_begins(s, order, strings, fds, fd_count, c)))
                return 0;
        int r = list_is_empty(&s->queue) ? order_send(s, order, strings, fds, fd_count) : -EAGAIN;
        if (r != -EAGAIN && r != -ETOOMANYREFS)
                return r < 0 && !is_the_end(r) ? r : 0;
        int added = packet_add(order, strings, fds, fd_count, c, &s->queue);
        if (added == 0 && r == -ETOOMANYREFS && c) /* only an order with descriptors is refused like that */
                packet_refuse(s, c->start);
        return added;
}

/* net_helper: starts farhand-net, exchanges messages with it, and supervises it.
 *
 * The id of a call consists of its slot and a counter, so that a late message about a cancelled call is recognized.
 */
#include "server/net_helper.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "conn/conns.h"
#include "conn/outq.h"
#include "core/req.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ_BYTES (256 * KIB)
/* Bodies up to this size are queued whole. Larger bodies are queued in pieces while less than this is in the queue. */
#define BODY_QUEUED_BYTES (256 * KIB)
#define SLOT_BITS 16
static_assert(LIMIT_HTTP_REQUESTS <= 1 << SLOT_BITS, "a slot must fit into an id");
/* The largest request message: headers, the names of private headers a second time, and the framing around them. */
static_assert(2 * LIMIT_HTTP_HEAD_BYTES + 9 * LIMIT_HTTP_HEADERS + 64 <= NETMSG_PAYLOAD_MAX,
              "what http_outgoing_build permits must fit into a message");

struct net_helper {
        struct server *server;
        int fd;    /* -1: not running */
        int pidfd; /* for signals: the pid of the helper may be reaped and reused at any time */
        struct watch *watch;
        struct buf in;
        struct outq out;
        struct deferred flush;
        struct list bodies;  /* net_call::body_link: calls whose body is not yet wholly in `out` */
        struct timer *pulse; /* runs until the next PING, or until the helper is given up */
        bool is_watched;     /* `pulse` is running */
        unsigned pings;      /* PINGs sent since the last sign of life */
        struct net_call *calls[LIMIT_HTTP_REQUESTS]; /* by slot */
        uint32_t uses;                               /* how often slots were used so far */
        size_t count;                                /* calls under way */
        uint64_t bodies_bytes;                       /* what net_reserve has reserved */
};

/* --- the end of the helper process -------------------------------------------------------------------------------- */

/* Ends the helper by closing its socket. `kills`: also sends SIGKILL, because a helper that has broken the rules may not end. */
static void stop(struct net_helper *h, bool kills)
{
        if (h->fd < 0)
                return;
        h->watch = watch_free(h->watch);
        h->fd = fd_close(h->fd);
        if (kills && h->pidfd >= 0)
                (void)syscall(SYS_pidfd_send_signal, h->pidfd, SIGKILL, NULL, 0);
        h->pidfd = fd_close(h->pidfd);
        deferred_cancel(&h->flush);
        timer_stop(h->pulse);
        h->is_watched = false;
        h->pings = 0;
        outq_release(&h->out);
        buf_release(&h->in);
}

static struct net_call *release_slot(struct net_helper *h, size_t slot)
{
        struct net_call *call = h->calls[slot];
        h->calls[slot] = NULL;
        h->count--;
        call->helper = NULL;
        call->timer = timer_free(call->timer);
        list_remove(&call->body_link);
        conns_free_arena(&h->server->conns, &call->kept);
        return call;
}

static void lose(struct net_helper *h, int why)
{
        log_warn_r(why, "http helper lost", "calls=%zu", h->count);
        stop(h, true);
        struct netmsg_end end = { .outcome = NETMSG_FAILED, .text = S("http helper ended") };
        for (size_t slot = 0; slot < ARRAY_LEN(h->calls); slot++) {
                if (!h->calls[slot])
                        continue;
                struct net_call *call = release_slot(h, slot);
                call->events->end(call, &end);
        }
}

/* --- is the helper alive? ----------------------------------------------------------------------------------------- */

static void send_message(struct net_helper *h, const struct buf *message)
{
        outq_raw(&h->out, buf_slice(message));
        loop_defer(&h->server->loop, &h->flush);
}

static void watch_for_pulse(struct net_helper *h)
{
        h->is_watched = true;
        timer_start(h->pulse, LIMIT_HTTP_PULSE_MS);
}

static void ping(struct net_helper *h)
{
        _buf_ struct buf message = BUF_INIT(NETMSG_HEAD_BYTES);
        must(netmsg_ping_write(&message) == 0);
        send_message(h, &message);
        h->pings++;
        watch_for_pulse(h);
}

/* Sends a PING while there are calls, or while a PING is not answered: the next call must not get a helper that hangs. */
static void on_pulse(void *arg)
{
        struct net_helper *h = arg;
        h->is_watched = false;
        if (h->pings >= LIMIT_HTTP_PINGS)
                lose(h, -ETIMEDOUT);
        else if (h->count > 0 || h->pings > 0)
                ping(h);
}

/* Ends a call that is past its time limit. The helper should have ended it. */
static void on_late(void *arg)
{
        struct net_call *call = arg;
        struct netmsg_end end = { .outcome = NETMSG_FAILED, .text = S("request timed out") };
        if (call->helper->pings == 0)
                ping(call->helper);
        net_call_cancel(call);
        call->events->end(call, &end);
}

static void limit_time(struct net_call *call, uint64_t timeout_ms)
{
        uint64_t ms;
        if (timeout_ms == NETMSG_NO_TIMEOUT || ckd_add(&ms, timeout_ms, (uint64_t)LIMIT_HTTP_GRACE_MS))
                return;
        call->timer = timer_new(&call->helper->server->loop, on_late, call);
        timer_start(call->timer, ms);
}

/* --- messages to and from the helper ------------------------------------------------------------------------------ */

static int take_head(struct net_call *call, struct slice payload)
{
        _arena_ struct arena a = ARENA_INIT;
        struct netmsg_head head;
        if (call->has_head || netmsg_head_decode(&a, payload, &head) < 0)
                return -EPROTO;
        call->has_head = true;
        call->events->head(call, &head);
        return 0;
}

static int take_data(struct net_call *call, struct slice bytes)
{
        if (!call->has_head || bytes.n > call->credit)
                return -EPROTO;
        call->credit -= bytes.n;
        call->events->data(call, bytes);
        return 0;
}

static int take_end(struct net_helper *h, struct net_call *call, struct slice payload)
{
        struct netmsg_end end;
        if (netmsg_end_decode(payload, &end) < 0 || (end.outcome == NETMSG_DONE && !call->has_head))
                return -EPROTO;
        (void)release_slot(h, call->id & ((1u << SLOT_BITS) - 1));
        call->events->end(call, &end);
        return 0;
}

static int take(struct net_helper *h, const struct netmsg *m)
{
        size_t slot = m->id & ((1u << SLOT_BITS) - 1);
        struct net_call *call = slot < ARRAY_LEN(h->calls) ? h->calls[slot] : NULL;
        if (call && call->id != m->id)
                call = NULL; /* the message is about a cancelled call */
        switch (m->type) {
        case NETMSG_HEAD:
                return call ? take_head(call, m->payload) : 0;
        case NETMSG_DATA:
                return call ? take_data(call, m->payload) : 0;
        case NETMSG_END:
                return call ? take_end(h, call, m->payload) : 0;
        case NETMSG_PONG:
                return 0; /* any message is a sign of life */
        default:
                return -EPROTO;
        }
}

static int read_some(struct net_helper *h)
{
        char *room;
        must(buf_reserve(&h->in, READ_BYTES, &room) == 0);
        ssize_t n = recv(h->fd, room, READ_BYTES, 0);
        if (n < 0)
                return fd_is_passing(errno) ? 0 : -errno;
        if (n == 0)
                return -EPIPE;
        h->pings = 0;
        buf_commit(&h->in, (size_t)n);
        size_t at = 0;
        ssize_t used;
        struct netmsg m;
        while ((used = netmsg_next(slice_from(h->in.p + at, h->in.n - at), &m)) > 0) {
                at += (size_t)used;
                int r = take(h, &m);
                if (r < 0)
                        return r;
        }
        if (used < 0)
                return (int)used;
        if (at == h->in.n)
                buf_release(&h->in);
        else
                buf_consume(&h->in, at);
        return 0;
}

/* Queues the next piece of each large body in turn, while the queue is short. */
static void queue_bodies(struct net_helper *h)
{
        struct net_call *call;
        while (h->out.bytes < BODY_QUEUED_BYTES &&
               (call = list_first(&h->bodies, struct net_call, body_link))) {
                size_t n = MIN(call->body.n, (size_t)NETMSG_PIECE_MAX);
                _buf_ struct buf message = BUF_INIT(2 * NETMSG_PIECE_MAX);
                must(netmsg_bytes_write(&message, NETMSG_BODY, call->id, slice_from(call->body.p, n)) == 0);
                outq_raw(&h->out, buf_slice(&message));
                call->body = slice_from(call->body.p + n, call->body.n - n);
                list_remove(&call->body_link);
                if (call->body.n > 0)
                        list_append(&h->bodies, &call->body_link);
                else
                        conns_free_arena(&h->server->conns, &call->kept);
        }
}

static void on_flush(struct deferred *d)
{
        struct net_helper *h = container_of(d, struct net_helper, flush);
        if (h->fd < 0)
                return;
        queue_bodies(h);
        int r = outq_flush(&h->out, h->fd);
        /* The rest of a body is sent in the next turn, so that a large body does not keep the loop busy. */
        bool has_more = r > 0 || !list_is_empty(&h->bodies);
        if (r < 0)
                lose(h, r);
        else
                watch_set(h->watch, WATCH_READ | (has_more ? WATCH_WRITE : 0u));
}

static void on_ready(void *arg, unsigned events)
{
        struct net_helper *h = arg;
        if (events & WATCH_WRITE) {
                h->pings = 0; /* the socket has room again: the helper has read from it */
                loop_defer(&h->server->loop, &h->flush);
        }
        if (!(events & WATCH_READ) || h->fd < 0)
                return;
        int r = read_some(h);
        if (r < 0)
                lose(h, r);
}

/* --- starting the helper and calls -------------------------------------------------------------------------------- */

static int start(struct net_helper *h, struct err *err)
{
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return err_set(err, RPC_INTERNAL, -errno, "http helper cannot be started: %s",
                               errno_text(errno));
        _close_ int ours = pair[0], theirs = pair[1];
        pid_t pid;
        int r = net_program_start(&h->server->http_program, theirs, &pid, err);
        if (r < 0)
                return r;
        procs_add_other(&h->server->procs, pid);
        /* The pidfd is opened before the loop can reap the process; it is -1 where the kernel has no pidfds. */
        h->pidfd = pidfd_open(pid, 0);
        h->fd = TAKE_FD(ours);
        r = watch_new(&h->server->loop, h->fd, WATCH_READ, on_ready, h, &h->watch);
        if (r < 0) {
                stop(h, true);
                return err_set(err, RPC_INTERNAL, r, "http helper cannot be watched: %s", errno_text(r));
        }
        log_debug("http helper started", "pid=%d", pid);
        return 0;
}

static struct net_helper *get(struct server *s)
{
        if (s->net)
                return s->net;
        struct net_helper *h = mem_new(struct net_helper);
        h->server = s;
        h->fd = h->pidfd = -1;
        buf_init(&h->in, NETMSG_HEAD_BYTES + NETMSG_PAYLOAD_MAX + READ_BYTES);
        outq_init(&h->out, FRAMING_RAW, SIZE_MAX);
        deferred_init(&h->flush, on_flush);
        list_init(&h->bodies);
        h->pulse = timer_new(&s->loop, on_pulse, h);
        return s->net = h;
}

struct net_helper *net_helper_free(struct net_helper *h)
{
        if (!h)
                return NULL;
        must(h->count == 0);
        stop(h, false);
        timer_free(h->pulse);
        free(h);
        return NULL;
}

int net_call_start(struct server *s, struct net_call *call, const struct net_call_events *events,
                   struct netmsg_request *m, struct slice body, struct arena *kept, struct err *err)
{
        struct net_helper *h = get(s);
        if (h->count >= LIMIT_HTTP_REQUESTS)
                return req_limit(err, "http requests of all connections", LIMIT_HTTP_REQUESTS);
        /* Bodies of cancelled calls may still be in the queue of a helper that does not read. */
        if (h->out.bytes > LIMIT_HTTP_BODIES_BYTES || body.n > LIMIT_HTTP_BODIES_BYTES - h->out.bytes)
                return req_limit(err, "bytes of http bodies", LIMIT_HTTP_BODIES_BYTES);
        int r = h->fd < 0 ? start(h, err) : 0;
        if (r < 0)
                return r;
        uint32_t slot = 0;
        while (h->calls[slot])
                slot++;
        *call = (struct net_call){ .helper = h, .events = events, .credit = LIMIT_HTTP_WINDOW_BYTES };
        list_init(&call->body_link);
        call->id = h->uses++ << SLOT_BITS | slot;
        m->credit = LIMIT_HTTP_WINDOW_BYTES;
        m->body_bytes = body.n;
        _buf_ struct buf message = BUF_INIT(SIZE_MAX / 2);
        r = netmsg_request_write(&message, call->id, m);
        bool is_kept = kept && body.n > BODY_QUEUED_BYTES;
        if (r == 0 && !is_kept)
                r = netmsg_bytes_write(&message, NETMSG_BODY, call->id, body);
        if (r < 0) {
                call->helper = NULL;
                return err_set(err, RPC_INTERNAL, r, "http/request is too large");
        }
        h->calls[slot] = call;
        h->count++;
        send_message(h, &message);
        if (is_kept) {
                call->body = body;
                call->kept = *kept;
                *kept = ARENA_INIT;
                list_append(&h->bodies, &call->body_link);
        }
        limit_time(call, m->timeout_ms);
        if (!h->is_watched)
                watch_for_pulse(h);
        return 0;
}

void net_call_cancel(struct net_call *call)
{
        struct net_helper *h = call->helper;
        if (!h)
                return;
        _buf_ struct buf message = BUF_INIT(NETMSG_HEAD_BYTES);
        must(netmsg_cancel_write(&message, call->id) == 0);
        send_message(h, &message);
        (void)release_slot(h, call->id & ((1u << SLOT_BITS) - 1));
}

void net_call_credit(struct net_call *call, size_t bytes)
{
        struct net_helper *h = call->helper;
        if (!h || bytes == 0)
                return;
        call->credit += bytes;
        _buf_ struct buf message = BUF_INIT(2 * NETMSG_HEAD_BYTES);
        must(call->credit <= LIMIT_HTTP_WINDOW_BYTES);
        must(netmsg_credit_write(&message, call->id, (uint32_t)bytes) == 0);
        send_message(h, &message);
}

bool net_reserve(struct server *s, uint64_t bytes)
{
        struct net_helper *h = get(s);
        if (bytes > LIMIT_HTTP_BODIES_BYTES - h->bodies_bytes)
                return false;
        h->bodies_bytes += bytes;
        return true;
}

void net_unreserve(struct server *s, uint64_t bytes)
{
        get(s)->bodies_bytes -= bytes;
}

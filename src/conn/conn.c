/* conn: begins and ends a connection, and finds out by pings whether the peer is still alive. Receiving is in conn_read.c,
 * sending in conn_send.c. */
#include "conn/conn_internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/* A peer whose silence proves nothing (is_held_back) is checked again after this time. */
#define HELD_BACK_MS 1000

/* --- state and end ------------------------------------------------------------------------------------------------ */

bool conn_is_usable(const struct conn *c)
{
        return c->state == CONN_OPEN;
}

void conn_update_watches(struct conn *c)
{
        unsigned in = 0, out = c->out.bytes > 0 && !list_is_linked(&c->dirty_link) ? WATCH_WRITE : 0u;
        if (c->state != CONN_DEAD && !c->blocks && (!c->has_peer_closed || c->is_shut))
                in = WATCH_READ;
        if (c->out_watch) {
                watch_set(c->in_watch, in);
                watch_set(c->out_watch, out);
        } else {
                watch_set(c->in_watch, in | out);
        }
}

void conn_mark_dirty(struct conn *c)
{
        if (c->state != CONN_DEAD && !list_is_linked(&c->dirty_link))
                list_append(&c->conns->dirty, &c->dirty_link);
}

void conn_free(struct conn *c)
{
        outq_release(&c->out);
        buf_release(&c->in);
        buf_release(&c->message);
        c->conns->events->released(c);
        free(c);
}

static void free_conn(struct deferred *d)
{
        struct conn *c = container_of(d, struct conn, reap);
        if (conn_parse_may_free(c))
                conn_free(c);
}

/* Tells the user that the connection has ended, and gives back the memory of its input. */
static void stop_serving(struct conn *c)
{
        c->conns->events->ended(c);
        if (c->parse)
                conn_parse_cancel(c); /* the thread that parses keeps the share until it is done */
        else
                assembly_release(&c->conns->assembly, &c->share);
        if (!c->is_dispatching)
                conns_free_buf(c->conns, &c->message);
}

/* Restores the flags of stdin or stdout, which we share with the process that started us. */
static void set_flags_back(int fd, int flags)
{
        (void)fcntl(fd, F_SETFL, flags);
}

void conn_drop(struct conn *c)
{
        if (c->state == CONN_DEAD)
                return;
        c->state = CONN_DEAD;
        stop_serving(c);
        list_remove(&c->link);
        list_remove(&c->dirty_link);
        deferred_cancel(&c->resume);
        c->timer = timer_free(c->timer);
        c->in_watch = watch_free(c->in_watch);
        c->out_watch = watch_free(c->out_watch);
        bool is_stdio = c->framing == FRAMING_LINES;
        if (is_stdio) {
                set_flags_back(c->in_fd, c->in_flags);
                set_flags_back(c->out_fd, c->out_flags);
                fd_close(c->out_fd);
        }
        fd_close(c->in_fd);
        c->conns->count--;
        log_debug("connection ended", "peer=%s", c->peer);
        loop_defer(c->conns->loop, &c->reap);
        c->conns->events->gone(c->conns, is_stdio);
}

void conn_drop_all(struct conns *s)
{
        struct conn *c;
        list_each (c, &s->all, link)
                conn_drop(c);
}

void conn_close(struct conn *c, int code)
{
        if (c->state != CONN_OPEN)
                return;
        c->state = CONN_CLOSING;
        stop_serving(c);
        c->blocks = 0;
        loop_defer(c->conns->loop, &c->resume); /* input held back may contain the peer's close frame */
        if (c->framing == FRAMING_WS) {
                char payload[2] = { (char)(code >> 8), (char)code };
                outq_control(&c->out, WS_CLOSE, slice_from(payload, code == WS_CLOSE_NO_STATUS ? 0 : 2));
        } else {
                c->has_peer_closed =
                        true; /* stdio has no close frame: the connection ends when all is sent */
        }
        timer_start(c->timer, LIMIT_CLOSE_MS);
        conn_mark_dirty(c);
}

/* --- is the peer alive? ------------------------------------------------------------------------------------------- */

void conn_heard(struct conn *c)
{
        c->reads++;
        c->asked_ms = 0;
}

void conn_ping(struct conn *c)
{
        if (c->framing != FRAMING_WS || c->state != CONN_OPEN)
                return;
        outq_control(&c->out, WS_PING, S(""));
        c->pinged_ms = clock_mono_ms();
        if (!c->asked_ms)
                c->asked_ms = c->pinged_ms;
        conn_mark_dirty(c);
}

/* Returns whether the peer's kernel still acknowledges: then a peer that reads nothing is slow, not dead. */
static bool is_acknowledging(const struct conn *c)
{
        struct tcp_info info = { 0 };
        socklen_t len = sizeof(info);
        if (getsockopt(c->out_fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
                return true; /* a unix socket: the kernel reports when the peer ends */
        return info.tcpi_last_ack_recv < c->conns->options->pong_timeout_ms;
}

/* Silence of the peer proves nothing while we do not read from it, or while it does not read but its kernel still
 * acknowledges. */
static bool is_held_back(const struct conn *c)
{
        return c->blocks != 0 || (c->is_backed_up && is_acknowledging(c));
}

static bool is_dead(const struct conn *c, uint64_t now_ms)
{
        uint64_t timeout_ms = c->conns->options->pong_timeout_ms;
        return timeout_ms && c->asked_ms && now_ms - c->asked_ms >= timeout_ms && !is_held_back(c);
}

/* Returns the time until is_dead must be checked again. */
static uint64_t until_dead_ms(const struct conn *c, uint64_t now_ms)
{
        uint64_t due_ms = c->asked_ms + c->conns->options->pong_timeout_ms;
        return due_ms > now_ms ? due_ms - now_ms : HELD_BACK_MS;
}

/* On stdio answers may still wait for a slow reader after the end of input. Then the connection stays until the pipe is closed or
 * the server ends. */
static bool is_being_read(const struct conn *c)
{
        return c->framing == FRAMING_LINES && c->out.bytes > 0 && !c->conns->is_draining;
}

static void on_timer(void *arg)
{
        struct conn *c = arg;
        const struct conn_options *options = c->conns->options;
        uint64_t now_ms = clock_mono_ms();
        if (c->state == CONN_CLOSING) {
                if (is_being_read(c))
                        timer_start(c->timer, LIMIT_CLOSE_MS);
                else
                        conn_drop(c);
                return;
        }
        if (is_dead(c, now_ms)) {
                log_info("peer is dead", "peer=%s silent_ms=%llu", c->peer,
                         (unsigned long long)(now_ms - c->asked_ms));
                conn_drop(c);
                return;
        }
        uint64_t interval_ms = options->ping_interval_ms; /* 0: a reload has switched pings off */
        if (interval_ms && now_ms - c->pinged_ms >= interval_ms)
                conn_ping(c);
        uint64_t wait_ms = interval_ms ? interval_ms : UINT64_MAX;
        if (options->pong_timeout_ms && c->asked_ms)
                wait_ms = MIN(wait_ms, until_dead_ms(c, now_ms));
        if (wait_ms != UINT64_MAX)
                timer_start(c->timer, wait_ms);
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

static int watch_both(struct conn *c)
{
        struct loop *l = c->conns->loop;
        int r = watch_new(l, c->in_fd, WATCH_READ, conn_on_ready, c, &c->in_watch);
        if (r == 0 && c->out_fd != c->in_fd)
                r = watch_new(l, c->out_fd, 0, conn_on_ready, c, &c->out_watch);
        if (r < 0)
                c->in_watch = watch_free(c->in_watch);
        return r;
}

static void on_share(struct assembly_share *share)
{
        conn_unblock(container_of(share, struct conn, share), BLOCK_ASSEMBLY);
}

static void on_too_slow(struct assembly_share *share)
{
        struct conn *c = container_of(share, struct conn, share);
        log_warn("large message dawdles", "peer=%s", c->peer);
        conn_close(c, WS_CLOSE_TRY_LATER);
}

/* Makes a connection of two descriptors, which must be non-blocking. On failure they stay the caller's. Returns 0 or -errno. */
static int conn_new(struct conns *s, enum framing framing, int in_fd, int out_fd, struct conn **ret)
{
        struct conn *c = mem_new(struct conn);
        c->conns = s;
        c->framing = framing;
        c->in_fd = in_fd;
        c->out_fd = out_fd;
        int r = watch_both(c);
        if (r < 0) {
                free(c);
                return r;
        }
        c->pinged_ms = clock_mono_ms();
        list_init(&c->dirty_link);
        assembly_share_init(&c->share, on_share, on_too_slow);
        list_append(&s->all, &c->link);
        s->count++;
        buf_init(&c->in, framing == FRAMING_WS ? 2 * LIMIT_READ_BYTES
                                               : s->options->max_message_bytes + 2 * LIMIT_READ_BYTES);
        buf_init(&c->message, s->options->max_message_bytes);
        outq_init(&c->out, framing, LIMIT_MESSAGE_OUT_BYTES);
        c->out.buffer_pool = &s->buffer_pool;
        deferred_init(&c->resume, conn_on_resume);
        deferred_init(&c->reap, free_conn);
        c->timer = timer_new(s->loop, on_timer, c);
        c->owner = s->events->begun(s, c);
        *ret = c;
        return 0;
}

struct conn *conn_new_ws(struct conns *s, int fd, const char *peer, const struct identity *who,
                         struct slice pending)
{
        struct conn *c;
        int r = conn_new(s, FRAMING_WS, fd, fd, &c);
        if (r < 0) {
                if (refusal_must_log(&s->refusals, REFUSAL_CONNECTION))
                        log_warn_r(r, refusal_event(REFUSAL_CONNECTION), "peer=%s", peer);
                return NULL;
        }
        snprintf(c->peer, sizeof(c->peer), "%s", peer);
        c->who = *who;
        ws_decoder_init(&c->ws, true, s->options->max_message_bytes);
        if (s->options->ping_interval_ms)
                timer_start(c->timer, s->options->ping_interval_ms);
        if (pending.n > 0) {
                must(buf_append(&c->in, pending) == 0);
                loop_defer(s->loop, &c->resume);
        }
        log_debug("connection", "peer=%s", c->peer);
        return c;
}

int conn_new_stdio(struct conns *s, int in_fd, int out_fd)
{
        struct conn *c;
        int in_flags = fcntl(in_fd, F_GETFL), out_flags = fcntl(out_fd, F_GETFL);
        int r = fd_set_nonblock(in_fd, true);
        if (r == 0)
                r = fd_set_nonblock(out_fd, true);
        if (r == 0)
                r = conn_new(s, FRAMING_LINES, in_fd, out_fd, &c);
        if (r < 0) {
                set_flags_back(in_fd, in_flags);
                set_flags_back(out_fd, out_flags);
                return r;
        }
        c->in_flags = in_flags;
        c->out_flags = out_flags;
        snprintf(c->peer, sizeof(c->peer), "stdio");
        line_decoder_init(&c->lines, s->options->max_message_bytes);
        return 0;
}

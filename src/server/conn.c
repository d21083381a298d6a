/* conn: see conn.h. Here how a connection begins and ends, and whether its peer still lives; what it receives is in
 * conn_read.c, what it sends in conn_send.c. */
#include "server/conn_internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/assembly.h"
#include "server/job.h"
#include "server/m_http.h"
#include "server/open_file.h"
#include "server/parked.h"
#include "server/session.h"
#include "server/watches.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- state -------------------------------------------------------------------------------------------------------- */

bool conn_is_usable(const struct conn *c)
{
        return c->state == CONN_OPEN;
}

void conn_update_watches(struct conn *c)
{
        unsigned in = 0, out = c->out.bytes > 0 && !list_is_linked(&c->dirty_link) ? WATCH_WRITE : 0u;
        if (c->state != CONN_DEAD && !c->blocks && (!c->peer_closed || c->is_shut))
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
                list_append(&c->server->dirty, &c->dirty_link);
}

static void free_conn(struct deferred *d)
{
        struct conn *c = container_of(d, struct conn, reap);
        outq_release(&c->out);
        buf_release(&c->in);
        buf_release(&c->message);
        free(c);
}

/* The connection can no longer be used: its session goes on without it, its waiting requests have nobody to answer. */
static void let_go(struct conn *c)
{
        parked_drop_all(c);
        http_drop_all(c);
        open_file_drop_all(&c->open_files);
        watches_drop_all(c);
        assembly_release(c);
        if (!c->is_dispatching)
                buf_release(&c->message);
        if (c->session)
                session_detach(c->session);
}

void conn_drop(struct conn *c)
{
        if (c->state == CONN_DEAD)
                return;
        c->state = CONN_DEAD;
        let_go(c);
        list_remove(&c->link);
        list_remove(&c->dirty_link);
        deferred_cancel(&c->resume);
        c->timer = timer_free(c->timer);
        c->in_watch = watch_free(c->in_watch);
        c->out_watch = watch_free(c->out_watch);
        bool is_stdio = c->framing == FRAMING_LINES;
        if (is_stdio) {
                /* Whoever gave us these descriptors shares their flags. */
                (void)fcntl(c->in_fd, F_SETFL, c->in_flags);
                (void)fcntl(c->out_fd, F_SETFL, c->out_flags);
                fd_close(c->out_fd);
        }
        fd_close(c->in_fd);
        c->server->connection_count--;
        log_debug("connection ended", "peer=%s", c->peer);
        loop_defer(&c->server->loop, &c->reap);
        if (is_stdio)
                server_drain(c->server);
        server_conn_gone(c->server);
}

void conn_close(struct conn *c, int code)
{
        if (c->state != CONN_OPEN)
                return;
        c->state = CONN_CLOSING;
        let_go(c);
        c->blocks = 0;
        loop_defer(&c->server->loop, &c->resume); /* what was held back may end with their close frame */
        if (c->framing == FRAMING_WS) {
                char payload[2] = { (char)(code >> 8), (char)code };
                outq_control(&c->out, WS_CLOSE, slice_from(payload, code == WS_CLOSE_NO_STATUS ? 0 : 2));
        } else {
                c->peer_closed = true; /* lines have no handshake: ends when all is sent */
        }
        timer_start(c->timer, LIMIT_CLOSE_MS);
        conn_mark_dirty(c);
}

/* --- is the peer there -------------------------------------------------------------------------------------------- */

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

/* Is the peer's kernel still acknowledging? Then a peer that takes nothing is slow, not dead. */
static bool is_acknowledging(const struct conn *c)
{
        struct tcp_info info = { 0 };
        socklen_t len = sizeof(info);
        if (getsockopt(c->out_fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
                return true; /* a unix socket: its peer cannot vanish without a trace */
        return info.tcpi_last_ack_recv < c->server->config->pong_timeout_ms;
}

/* We do not read it, or it does not read us but its kernel is there: silence proves nothing. */
static bool is_held_back(const struct conn *c)
{
        return c->blocks != 0 || (c->is_backed_up && is_acknowledging(c));
}

static bool is_dead(const struct conn *c, uint64_t now_ms)
{
        uint64_t timeout_ms = c->server->config->pong_timeout_ms;
        return timeout_ms && c->asked_ms && now_ms - c->asked_ms >= timeout_ms && !is_held_back(c);
}

/* Behind the last line of stdio answers may wait that somebody takes slowly: only the end of the pipe says that nobody
 * does, or that the server has to go. */
static bool is_being_read(const struct conn *c)
{
        return c->framing == FRAMING_LINES && c->out.bytes > 0 && !c->server->is_draining;
}

static void on_timer(void *arg)
{
        struct conn *c = arg;
        const struct config *config = c->server->config;
        uint64_t now_ms = clock_mono_ms();
        if (c->state == CONN_CLOSING && is_being_read(c)) {
                timer_start(c->timer, LIMIT_CLOSE_MS);
                return;
        }
        if (c->state == CONN_CLOSING) {
                conn_drop(c);
                return;
        }
        if (is_dead(c, now_ms)) {
                log_info("peer is dead", "peer=%s silent_ms=%llu", c->peer,
                         (unsigned long long)(now_ms - c->asked_ms));
                conn_drop(c);
                return;
        }
        if (now_ms - c->pinged_ms >= config->ping_interval_ms)
                conn_ping(c);
        uint64_t wait_ms = config->ping_interval_ms;
        if (config->pong_timeout_ms && c->asked_ms)
                wait_ms = MIN(wait_ms, MAX(c->asked_ms + config->pong_timeout_ms, now_ms + 1) - now_ms);
        timer_start(c->timer, wait_ms);
}

/* --- begin -------------------------------------------------------------------------------------------------------- */

static struct conn *conn_new(struct server *s, enum framing framing, int in_fd, int out_fd)
{
        struct conn *c = mem_new(struct conn);
        c->in_flags = fcntl(in_fd, F_GETFL);
        c->out_flags = fcntl(out_fd, F_GETFL);
        c->server = s;
        c->framing = framing;
        c->in_fd = in_fd;
        c->out_fd = out_fd;
        c->pinged_ms = clock_mono_ms();
        list_init(&c->dirty_link);
        list_init(&c->assembly_link);
        list_init(&c->parked);
        list_init(&c->http_calls);
        jobs_init(&c->jobs);
        map_init(&c->open_files);
        list_append(&s->conns, &c->link);
        s->connection_count++;
        buf_init(&c->in, framing == FRAMING_WS ? 2 * LIMIT_READ_BYTES
                                               : s->config->max_message_bytes + 2 * LIMIT_READ_BYTES);
        buf_init(&c->message, s->config->max_message_bytes);
        outq_init(&c->out, framing, LIMIT_MESSAGE_OUT_BYTES);
        c->out.spares = &s->spares;
        deferred_init(&c->resume, conn_on_resume);
        deferred_init(&c->reap, free_conn);
        c->timer = timer_new(&s->loop, on_timer, c);
        c->in_watch = watch_new(&s->loop, in_fd, conn_on_ready, c);
        if (out_fd != in_fd)
                c->out_watch = watch_new(&s->loop, out_fd, conn_on_ready, c);
        conn_update_watches(c);
        return c;
}

struct conn *conn_new_ws(struct server *s, int fd, const char *peer, struct slice pending)
{
        struct conn *c = conn_new(s, FRAMING_WS, fd, fd);
        snprintf(c->peer, sizeof(c->peer), "%s", peer);
        ws_decoder_init(&c->ws, true, s->config->max_message_bytes);
        if (s->config->ping_interval_ms)
                timer_start(c->timer, s->config->ping_interval_ms);
        if (pending.n > 0) {
                must(buf_append(&c->in, pending) == 0);
                loop_defer(&s->loop, &c->resume);
        }
        log_debug("connection", "peer=%s", c->peer);
        return c;
}

struct conn *conn_new_stdio(struct server *s, int in_fd, int out_fd)
{
        struct conn *c = conn_new(s, FRAMING_LINES, in_fd, out_fd);
        snprintf(c->peer, sizeof(c->peer), "stdio");
        line_decoder_init(&c->lines, s->config->max_message_bytes);
        return c;
}

#include "server/conn.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/assembly.h"
#include "server/dispatch.h"
#include "server/job.h"
#include "server/m_http.h"
#include "server/open_file.h"
#include "server/parked.h"
#include "server/session.h"
#include "server/watches.h"

#include <errno.h>
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

static void update_watches(struct conn *c)
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

static void mark_dirty(struct conn *c)
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
        mark_dirty(c);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

void conn_send_first(struct conn *c, struct outq *first)
{
        outq_move(&c->out, first);
        mark_dirty(c);
}

bool conn_wants_output(const struct conn *c)
{
        return !(c->blocks & BLOCK_OUTPUT);
}

static void sent_more(struct conn *c)
{
        if (outq_backlog(&c->out) > LIMIT_OUT_HIGH_BYTES)
                conn_block(c, BLOCK_OUTPUT);
        mark_dirty(c);
}

void conn_reply_begin(struct conn *c, const struct rpc_id *id, size_t hint, struct jsonw *ret)
{
        rpc_result_begin(ret, outq_begin(&c->out, hint + 64), id);
}

static void answer_too_large(struct conn *c, const struct rpc_id *id)
{
        struct err err = ERR_INIT;
        err_set(&err, RPC_INTERNAL, -EMSGSIZE, CONN_ANSWER_TOO_LARGE, c->out.max_message);
        err.reason = "answerTooLarge";
        conn_fail(c, id, &err, NULL);
}

void conn_reply_end(struct conn *c, const struct rpc_id *id, struct jsonw *w)
{
        if (rpc_result_end(w) < 0) {
                outq_cancel(&c->out);
                answer_too_large(c, id);
        } else if (outq_end(&c->out) < 0) {
                answer_too_large(c, id);
        }
        sent_more(c);
}

void conn_send(struct conn *c, const struct rpc_id *id, struct buf *answer)
{
        if (outq_send(&c->out, answer) < 0)
                answer_too_large(c, id);
        sent_more(c);
}

void conn_send_piece(struct conn *c, struct buf *piece, bool is_last)
{
        outq_stream_piece(&c->out, piece, is_last);
        sent_more(c);
}

void conn_fail(struct conn *c, const struct rpc_id *id, const struct err *err, const char *extra_data)
{
        struct buf *b = outq_begin(&c->out, strlen(err->text) + 256);
        if (rpc_error_write(b, id, err, extra_data) < 0)
                outq_cancel(&c->out); /* a client that reads less than an error message gets none */
        else
                must(outq_end(&c->out) == 0); /* too long would have met the buf's ceiling */
        sent_more(c);
}

void conn_notify_begin(struct conn *c, const char *method, size_t hint, struct jsonw *ret)
{
        rpc_notification_begin(ret, outq_begin(&c->out, hint + 64), method);
}

void conn_notify_end(struct conn *c, struct jsonw *w)
{
        int r = rpc_notification_end(w);
        if (r < 0)
                outq_cancel(&c->out);
        else
                r = outq_end(&c->out);
        if (r < 0) {
                /* A hole in a row of notifications would be worse than the end of the connection. */
                log_warn("notification larger than the client reads", "peer=%s", c->peer);
                conn_close(c, WS_CLOSE_TOO_BIG);
        }
        sent_more(c);
}

/* A byte came: the peer lives. */
static void heard(struct conn *c)
{
        c->reads++;
        c->asked_ms = 0;
}

/* All is said, on both sides. Closing now would make the kernel answer unread bytes with a reset, and the peer could lose
 * our close frame: send the end, then discard until theirs. */
static void shut(struct conn *c)
{
        c->is_shut = true;
        if (c->framing == FRAMING_LINES || shutdown(c->out_fd, SHUT_WR) < 0)
                conn_drop(c);
}

/* TCP_USER_TIMEOUT would also end a connection whose peer only does not read: it is off meanwhile, and the pings decide. */
static void set_backed_up(struct conn *c, bool is_backed_up)
{
        if (c->is_backed_up == is_backed_up)
                return;
        c->is_backed_up = is_backed_up;
        unsigned timeout = is_backed_up ? 0 : (unsigned)c->server->config->tcp_user_timeout_ms;
        if (c->framing == FRAMING_WS) /* fails on a unix socket, which has no such thing */
                (void)setsockopt(c->out_fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

void conn_flush(struct conn *c)
{
        list_remove(&c->dirty_link);
        if (c->state == CONN_DEAD)
                return;
        size_t before = c->out.bytes;
        int r = outq_flush(&c->out, c->out_fd);
        if (r < 0) {
                conn_drop(c);
                return;
        }
        if (c->is_backed_up && c->out.bytes < before)
                heard(c); /* the kernel's buffer was full and has room again: the peer reads */
        set_backed_up(c, r > 0);
        if (outq_backlog(&c->out) < LIMIT_OUT_LOW_BYTES)
                conn_unblock(c, BLOCK_OUTPUT);
        if (c->state == CONN_OPEN)
                jobs_on_room(c);
        if (c->out.bytes == 0 && c->state == CONN_CLOSING && c->peer_closed && !c->is_shut)
                shut(c);
        if (c->state != CONN_DEAD)
                update_watches(c);
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

void conn_block(struct conn *c, enum conn_block_reason reason)
{
        if (c->blocks & reason)
                return;
        c->blocks |= reason;
        update_watches(c);
        if (c->session && reason == BLOCK_OUTPUT)
                session_pause_output(c->session, true);
}

void conn_unblock(struct conn *c, enum conn_block_reason reason)
{
        if (!(c->blocks & reason))
                return;
        c->blocks &= ~(unsigned)reason;
        if (c->session && reason == BLOCK_OUTPUT)
                session_pause_output(c->session, false);
        if (reason == BLOCK_OUTPUT)
                http_resume(c);
        loop_defer(&c->server->loop, &c->resume);
}

static void on_control(struct conn *c, const struct ws_piece *piece)
{
        switch (piece->opcode) {
        case WS_PING:
                if (c->state == CONN_OPEN) {
                        outq_control(&c->out, WS_PONG, piece->payload);
                        sent_more(c);
                }
                break;
        case WS_CLOSE:
                c->peer_closed = true;
                conn_close(c, piece->close_code); /* echoes the code, when ours is not already on its way */
                mark_dirty(c);
                break;
        default:
                break; /* a pong: heard_ms has moved */
        }
}

/* A large buffer that is there, when all of it may be held: its peer may take its time. */
static void take_spare(struct conn *c)
{
        size_t cap = c->message.cap;
        spares_take(&c->server->spares, &c->message);
        c->message.cap = cap;
        if (c->message.allocated > 0 && !assembly_try(c, c->message.allocated))
                spares_put(&c->server->spares, &c->message);
}

/* A piece of a message that did not come as a whole. Returns false when there is no memory for the rest yet. */
static bool assemble(struct conn *c, const struct ws_piece *piece)
{
        if (c->message.allocated == 0 && piece->frame_left >= LIMIT_READ_BYTES && c->assembly_bytes == 0)
                take_spare(c);
        /* The decoder keeps to max_message. */
        if (piece->payload.p == c->message.p + c->message.n)
                buf_commit(&c->message, piece->payload.n); /* it was read there */
        else
                must(buf_append(&c->message, piece->payload) == 0);
        c->assembly_seen += piece->payload.n;
        if (piece->message_end)
                return true;
        if (c->message.n <= MAX(c->assembly_bytes, (uint64_t)LIMIT_ASSEMBLY_FREE_BYTES))
                return true;
        if (assembly_claim(c, MIN(2 * c->message.n, c->server->config->max_message_bytes)))
                return true;
        conn_block(c, BLOCK_ASSEMBLY);
        return false;
}

static void on_data(struct conn *c, const struct ws_piece *piece)
{
        if (c->state != CONN_OPEN)
                return;
        if (piece->message_start && piece->message_end) {
                dispatch_message(c, piece->payload);
                return;
        }
        if (!assemble(c, piece) || !piece->message_end)
                return;
        c->is_dispatching = true;
        dispatch_message(c, buf_slice(&c->message));
        c->is_dispatching = false;
        spares_put(&c->server->spares, &c->message);
        if (c->state == CONN_OPEN)
                assembly_release(c);
}

/* Consumes what it can of p[0 … n); returns how much. */
static size_t consume_ws(struct conn *c, char *p, size_t n)
{
        size_t at = 0;
        while (at < n && !c->blocks && !c->peer_closed && c->state != CONN_DEAD) {
                size_t used;
                struct ws_piece piece;
                enum ws_event ev = ws_next(&c->ws, p + at, n - at, &used, &piece);
                at += used;
                if (ev == WS_MORE)
                        break;
                if (ev == WS_FAIL) {
                        c->peer_closed = true; /* nothing more of what they send can be understood */
                        conn_close(c, piece.close_code);
                        return n;
                }
                if (ev == WS_CONTROL)
                        on_control(c, &piece);
                else
                        on_data(c, &piece);
        }
        return c->peer_closed ? n : at;
}

static size_t consume_lines(struct conn *c, char *p, size_t n)
{
        size_t at = 0;
        while (!c->blocks && c->state == CONN_OPEN) {
                struct slice line;
                ssize_t used = line_next(&c->lines, slice_from(p + at, n - at), c->peer_closed, &line);
                if (used < 0 || (used > 0 && line.p && !utf8_is_valid(line))) {
                        log_warn("stdio line is too long or not UTF-8", "peer=%s", c->peer);
                        conn_close(c, WS_CLOSE_BAD_DATA);
                        return n;
                }
                if (used == 0)
                        break;
                at += (size_t)used;
                if (line.p)
                        dispatch_message(c, line);
        }
        return at;
}

/* What is in `in` is worked off in place; a rest stays there. */
static void consume_in(struct conn *c)
{
        size_t used = c->framing == FRAMING_WS ? consume_ws(c, c->in.p, c->in.n)
                                               : consume_lines(c, c->in.p, c->in.n);
        if (used == c->in.n)
                buf_release(&c->in); /* an idle connection holds no memory */
        else
                buf_consume(&c->in, used);
}

/* The peer has stopped sending. On stdio its last line is still worked off, and file requests get their answers, but
 * nothing else is waited for; a WebSocket without a close frame is simply gone. */
static void on_end_of_input(struct conn *c)
{
        c->peer_closed = true;
        if (c->framing == FRAMING_WS) {
                conn_drop(c);
                return;
        }
        consume_in(c);
        if (c->state == CONN_OPEN && !c->blocks && c->jobs.count == 0)
                conn_close(c, WS_CLOSE_NORMAL);
}

static void on_resume(struct deferred *d)
{
        struct conn *c = container_of(d, struct conn, resume);
        if (c->state == CONN_DEAD || c->blocks)
                return;
        if (c->session)
                session_wake_readers(c->session);
        watches_on_room(c);
        if (c->in.n > 0 && !c->blocks)
                consume_in(c);
        if (c->state == CONN_OPEN && c->framing == FRAMING_LINES && c->peer_closed && !c->blocks &&
            c->jobs.count == 0)
                conn_close(c, WS_CLOSE_NORMAL);
        if (c->state != CONN_DEAD)
                update_watches(c);
}

/* Small messages are worked off in the server's scratch memory, without a copy; a rest goes to the connection. */
static void consume_ws_scratch(struct conn *c, size_t n)
{
        char *scratch = c->server->scratch;
        size_t used = consume_ws(c, scratch, n);
        if (c->state != CONN_DEAD && used < n)
                must(buf_append(&c->in, slice_from(scratch + used, n - used)) == 0);
}

/* In the middle of a large frame, of a message whose beginning is already assembled. */
static bool is_in_large_frame(const struct conn *c)
{
        return c->framing == FRAMING_WS && c->state == CONN_OPEN && c->in.n == 0 && c->message.n > 0 &&
               c->ws.in_frame && c->ws.left >= LIMIT_READ_BYTES;
}

/* Straight to its place, and more at once: what is read belongs to the frame. */
static ssize_t read_frame(struct conn *c)
{
        uint64_t granted = MAX(c->assembly_bytes, (uint64_t)LIMIT_ASSEMBLY_FREE_BYTES);
        uint64_t room = granted > c->message.n ? granted - c->message.n : 0;
        size_t want = (size_t)MIN(MAX(room, (uint64_t)LIMIT_READ_BYTES), (uint64_t)LIMIT_READ_LARGE_BYTES);
        char *to;
        want = (size_t)MIN((uint64_t)want, c->ws.left);
        must(buf_reserve(&c->message, want, &to) == 0);
        ssize_t r = recv(c->in_fd, to, want, 0);
        if (r > 0) {
                heard(c);
                size_t used = consume_ws(c, to, (size_t)r);
                must(used == (size_t)r);
        }
        return r;
}

static ssize_t read_some(struct conn *c)
{
        ssize_t r;
        if (is_in_large_frame(c))
                return read_frame(c);
        if (c->framing == FRAMING_WS) {
                /* The rest of the read before is less than one frame head or control frame. */
                size_t rest = c->in.n;
                must(rest <= SERVER_SCRATCH_REST);
                memcpy(c->server->scratch, c->in.p, rest);
                r = recv(c->in_fd, c->server->scratch + rest, LIMIT_READ_BYTES, 0);
                if (r > 0) {
                        heard(c);
                        buf_release(&c->in);
                        consume_ws_scratch(c, rest + (size_t)r);
                }
                return r;
        }
        char *room;
        must(buf_reserve(&c->in, LIMIT_READ_BYTES, &room) == 0);
        r = read(c->in_fd, room, LIMIT_READ_BYTES);
        if (r > 0) {
                heard(c);
                buf_commit(&c->in, (size_t)r);
                consume_in(c);
        }
        return r;
}

static void discard(struct conn *c)
{
        ssize_t r = recv(c->in_fd, c->server->scratch, LIMIT_READ_BYTES, 0);
        if (r == 0 || (r < 0 && errno != EAGAIN && errno != EINTR))
                conn_drop(c);
}

static void on_ready(void *arg, unsigned events)
{
        struct conn *c = arg;
        if (events & WATCH_WRITE)
                mark_dirty(c);
        if (!(events & WATCH_READ) || c->blocks || c->state == CONN_DEAD)
                return;
        if (c->is_shut) {
                discard(c);
                return;
        }
        if (c->peer_closed || list_is_linked(&c->resume.link))
                return; /* first what was held back, at the end of this turn */
        ssize_t r = read_some(c);
        if (r > 0)
                return;
        if (r < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM))
                return;
        if (r == 0)
                on_end_of_input(c);
        else
                conn_drop(c);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

void conn_ping(struct conn *c)
{
        if (c->framing != FRAMING_WS || c->state != CONN_OPEN)
                return;
        outq_control(&c->out, WS_PING, S(""));
        c->pinged_ms = clock_mono_ms();
        if (!c->asked_ms)
                c->asked_ms = c->pinged_ms;
        mark_dirty(c);
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
        deferred_init(&c->resume, on_resume);
        deferred_init(&c->reap, free_conn);
        c->timer = timer_new(&s->loop, on_timer, c);
        c->in_watch = watch_new(&s->loop, in_fd, on_ready, c);
        if (out_fd != in_fd)
                c->out_watch = watch_new(&s->loop, out_fd, on_ready, c);
        update_watches(c);
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

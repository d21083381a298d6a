/* conn_read: what a connection receives: bytes from the socket or stdin, through the decoder of its framing, to dispatch.
 *
 * A message that came as a whole is worked off where it was read; another is joined in `message`, as far as there is memory
 * for it. While there is a reason not to read (enum conn_block_reason) what was already read waits in `in`.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/assembly.h"
#include "server/conn_internal.h"
#include "server/dispatch.h"
#include "server/m_http.h"
#include "server/session.h"
#include "server/watches.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

void conn_block(struct conn *c, enum conn_block_reason reason)
{
        if (c->blocks & reason)
                return;
        c->blocks |= reason;
        conn_update_watches(c);
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
                        conn_sent_more(c);
                }
                break;
        case WS_CLOSE:
                c->peer_closed = true;
                conn_close(c, piece->close_code); /* echoes the code, when ours is not already on its way */
                conn_mark_dirty(c);
                break;
        default:
                break; /* a pong: that it came is all it says */
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

void conn_on_resume(struct deferred *d)
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
                conn_update_watches(c);
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
                conn_heard(c);
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
                        conn_heard(c);
                        buf_release(&c->in);
                        consume_ws_scratch(c, rest + (size_t)r);
                }
                return r;
        }
        char *room;
        must(buf_reserve(&c->in, LIMIT_READ_BYTES, &room) == 0);
        r = read(c->in_fd, room, LIMIT_READ_BYTES);
        if (r > 0) {
                conn_heard(c);
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

void conn_on_ready(void *arg, unsigned events)
{
        struct conn *c = arg;
        if (events & WATCH_WRITE)
                conn_mark_dirty(c);
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

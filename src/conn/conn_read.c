/* conn_read: reads bytes from the socket or stdin, decodes their framing and gives messages to the user.
 *
 * A message that arrived whole is handled in the buffer that it was read into. Any other message is assembled in `message`,
 * as far as the connection has memory for it. While there is a reason not to read (enum conn_block_reason), bytes already
 * read wait in `in`.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "conn/conn_internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

void conn_block(struct conn *c, enum conn_block_reason reason)
{
        if (c->blocks & reason)
                return;
        c->blocks |= reason;
        conn_update_watches(c);
        if (reason == BLOCK_OUTPUT)
                c->conns->events->paused(c, true);
}

void conn_unblock(struct conn *c, enum conn_block_reason reason)
{
        if (!(c->blocks & reason))
                return;
        c->blocks &= ~(unsigned)reason;
        if (reason == BLOCK_OUTPUT)
                c->conns->events->paused(c, false);
        loop_defer(c->conns->loop, &c->resume);
}

static void on_control(struct conn *c, const struct ws_piece *piece)
{
        switch (piece->opcode) {
        case WS_PING:
                if (c->state == CONN_OPEN) {
                        outq_control(&c->out, WS_PONG, piece->payload);
                        conn_queued_more(c);
                }
                break;
        case WS_CLOSE:
                c->has_peer_closed = true;
                conn_close(c, piece->close_code); /* answers the frame, unless we have sent one already */
                conn_mark_dirty(c);
                break;
        default:
                break; /* a pong: conn_heard has noted already that bytes arrived */
        }
}

/* Assembles the message in a pooled buffer, but only when the connection gets a share for the whole buffer, because a slow peer
 * may occupy the buffer for long. */
static void use_pooled_buffer(struct conn *c)
{
        size_t cap = c->message.cap;
        buffer_pool_take(&c->conns->buffer_pool, &c->message);
        c->message.cap = cap;
        if (c->message.allocated > 0 && !assembly_try(&c->conns->assembly, &c->share, c->message.allocated))
                buffer_pool_put(&c->conns->buffer_pool, &c->message);
}

/* Adds a piece to a message that did not arrive whole. Returns false when the rest must wait for memory. */
static bool assemble(struct conn *c, const struct ws_piece *piece)
{
        if (c->message.allocated == 0 && piece->frame_left >= LIMIT_READ_BYTES && c->share.bytes == 0)
                use_pooled_buffer(c);
        /* The decoder has checked the length against max_message. */
        if (piece->payload.p == c->message.p + c->message.n)
                buf_commit(&c->message, piece->payload.n); /* read_frame has put it there already */
        else
                must(buf_append(&c->message, piece->payload) == 0);
        c->share.seen += piece->payload.n;
        if (piece->message_end)
                return true;
        if (c->message.n <= MAX(c->share.bytes, (uint64_t)LIMIT_ASSEMBLY_FREE_BYTES))
                return true;
        if (assembly_claim(&c->conns->assembly, &c->share,
                           MIN(2 * c->message.n, c->conns->options->max_message_bytes)))
                return true;
        conn_block(c, BLOCK_ASSEMBLY);
        return false;
}

static void on_data(struct conn *c, const struct ws_piece *piece)
{
        if (c->state != CONN_OPEN)
                return;
        if (piece->message_start && piece->message_end) {
                c->conns->events->message(c, piece->payload);
                return;
        }
        if (!assemble(c, piece) || !piece->message_end)
                return;
        if (c->message.n > LIMIT_PARSE_LOOP_BYTES && conn_parse_begin(c))
                return;
        c->is_dispatching = true;
        c->conns->events->message(c, buf_slice(&c->message));
        c->is_dispatching = false;
        conns_free_buf(c->conns, &c->message);
        if (c->state == CONN_OPEN)
                assembly_release(&c->conns->assembly, &c->share);
}

/* Handles the frames in p[0 … n). Returns how many bytes were consumed: an incomplete rest stays. */
static size_t consume_ws(struct conn *c, char *p, size_t n)
{
        size_t at = 0;
        while (at < n && !c->blocks && !c->has_peer_closed && c->state != CONN_DEAD) {
                size_t used;
                struct ws_piece piece;
                enum ws_event ev = ws_next(&c->ws, p + at, n - at, &used, &piece);
                at += used;
                if (ev == WS_MORE)
                        break;
                if (ev == WS_FAIL) {
                        c->has_peer_closed = true; /* the framing is broken: later bytes mean nothing */
                        conn_close(c, piece.close_code);
                        return n;
                }
                if (ev == WS_CONTROL)
                        on_control(c, &piece);
                else
                        on_data(c, &piece);
        }
        return c->has_peer_closed ? n : at;
}

static size_t consume_lines(struct conn *c, char *p, size_t n)
{
        size_t at = 0;
        while (!c->blocks && c->state == CONN_OPEN) {
                struct slice line;
                ssize_t used = line_next(&c->lines, slice_from(p + at, n - at), c->has_peer_closed, &line);
                if (used < 0 || (used > 0 && line.p && !utf8_is_valid(line))) {
                        log_warn("stdio line is too long or not UTF-8", "peer=%s", c->peer);
                        conn_close(c, WS_CLOSE_BAD_DATA);
                        return n;
                }
                if (used == 0)
                        break;
                at += (size_t)used;
                if (line.p)
                        c->conns->events->message(c, line);
        }
        return at;
}

/* Handles the messages in `in`; an incomplete rest stays there. */
static void consume_in(struct conn *c)
{
        size_t used = c->framing == FRAMING_WS ? consume_ws(c, c->in.p, c->in.n)
                                               : consume_lines(c, c->in.p, c->in.n);
        if (used == c->in.n)
                buf_release(&c->in); /* an idle connection holds no memory */
        else
                buf_consume(&c->in, used);
}

/* Closes a connection on stdio when the peer has ended its input and has all its answers. */
static void close_if_done(struct conn *c)
{
        if (c->state == CONN_OPEN && c->framing == FRAMING_LINES && c->has_peer_closed && !c->blocks &&
            !c->conns->events->is_busy(c))
                conn_close(c, WS_CLOSE_NORMAL);
}

void conn_close_if_idle(struct conn *c)
{
        if (c->has_peer_closed)
                loop_defer(c->conns->loop, &c->resume);
}

bool conn_take_message(struct conn *c, struct slice text, struct buf *ret)
{
        if (!c->is_dispatching || text.p != c->message.p || buffer_pool_is_wasted(&c->message))
                return false;
        *ret = c->message;
        buf_init(&c->message, c->message.cap);
        return true;
}

/* Called when the peer has ended its input. On stdio the last line is still handled, and running jobs are still answered. A
 * WebSocket that ends without a close frame is dropped. */
static void on_end_of_input(struct conn *c)
{
        c->has_peer_closed = true;
        if (c->framing == FRAMING_WS) {
                conn_drop(c);
                return;
        }
        consume_in(c);
        close_if_done(c);
}

void conn_on_resume(struct deferred *d)
{
        struct conn *c = container_of(d, struct conn, resume);
        if (c->state == CONN_DEAD || c->blocks)
                return;
        c->conns->events->resumed(c);
        if (c->in.n > 0 && !c->blocks)
                consume_in(c);
        close_if_done(c);
        if (c->state != CONN_DEAD)
                conn_update_watches(c);
}

/* Handles small messages in the scratch buffer that all connections share, without a copy; a rest is copied to `in`. */
static void consume_ws_scratch(struct conn *c, size_t n)
{
        char *scratch = c->conns->scratch;
        size_t used = consume_ws(c, scratch, n);
        if (c->state != CONN_DEAD && used < n)
                must(buf_append(&c->in, slice_from(scratch + used, n - used)) == 0);
}

/* Returns whether the next bytes belong to a large frame whose beginning is already in `message`. */
static bool is_in_large_frame(const struct conn *c)
{
        return c->framing == FRAMING_WS && c->state == CONN_OPEN && c->in.n == 0 && c->message.n > 0 &&
               c->ws.in_frame && c->ws.left >= LIMIT_READ_BYTES;
}

/* Reads the rest of a large frame straight into `message`. */
static ssize_t read_frame(struct conn *c)
{
        uint64_t granted = MAX(c->share.bytes, (uint64_t)LIMIT_ASSEMBLY_FREE_BYTES);
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
                /* The last read has left an incomplete frame head or an incomplete control frame, which is short. */
                size_t rest = c->in.n;
                must(rest <= CONNS_SCRATCH_REST);
                memcpy(c->conns->scratch, c->in.p, rest);
                r = recv(c->in_fd, c->conns->scratch + rest, LIMIT_READ_BYTES, 0);
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
        ssize_t r = recv(c->in_fd, c->conns->scratch, LIMIT_READ_BYTES, 0);
        if (r == 0 || (r < 0 && !fd_is_passing(errno)))
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
        if (c->has_peer_closed || list_is_linked(&c->resume.link))
                return; /* input that was held back goes first, at the end of this turn */
        ssize_t r = read_some(c);
        if (r == 0)
                on_end_of_input(c);
        else if (r < 0 && !fd_is_passing(errno))
                conn_drop(c);
}

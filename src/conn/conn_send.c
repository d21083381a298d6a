/* conn_send: writes answers, errors and notifications into the outgoing queue, and the queue into the socket.
 *
 * Messages are only appended to the queue, which is flushed at the end of the turn. Past the high mark of the queue the
 * connection is not read until the peer has read enough.
 */
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "conn/conn_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

void conn_send_first(struct conn *c, struct outq *first)
{
        outq_move(&c->out, first);
        conn_mark_dirty(c);
}

bool conn_wants_output(const struct conn *c)
{
        return !(c->blocks & BLOCK_OUTPUT);
}

void conn_queued_more(struct conn *c)
{
        if (outq_backlog(&c->out) > LIMIT_OUT_HIGH_BYTES)
                conn_block(c, BLOCK_OUTPUT);
        conn_mark_dirty(c);
}

void conn_reply_begin(struct conn *c, const struct rpc_id *id, size_t hint, struct jsonw *ret)
{
        rpc_result_begin(ret, outq_begin(&c->out, hint + 64), id);
        jsonw_object(ret);
}

static void answer_too_large(struct conn *c, const struct rpc_id *id)
{
        struct err err = ERR_INIT;
        err_set(&err, RPC_INTERNAL, -EMSGSIZE, RPC_ANSWER_TOO_LARGE, c->out.max_message);
        err.reason = "answerTooLarge";
        conn_fail(c, id, &err, NULL);
}

void conn_reply_end(struct conn *c, const struct rpc_id *id, struct jsonw *w)
{
        jsonw_object_end(w);
        if (rpc_result_end(w) < 0) {
                outq_cancel(&c->out);
                answer_too_large(c, id);
        } else if (outq_end(&c->out) < 0) {
                answer_too_large(c, id);
        }
        conn_queued_more(c);
}

void conn_send(struct conn *c, const struct rpc_id *id, struct buf *answer)
{
        if (outq_send(&c->out, answer) < 0)
                answer_too_large(c, id);
        conn_queued_more(c);
}

void conn_send_piece(struct conn *c, struct buf *piece, bool is_last)
{
        outq_stream_piece(&c->out, piece, is_last);
        conn_queued_more(c);
}

void conn_fail(struct conn *c, const struct rpc_id *id, const struct err *err, const char *extra_data)
{
        struct buf *b = outq_begin(&c->out, strlen(err->text) + 256);
        if (rpc_error_write(b, id, err, extra_data) < 0)
                outq_cancel(&c->out); /* even the error is longer than the client accepts: nothing is sent */
        else
                must(outq_end(&c->out) == 0); /* rpc_error_write has checked the length */
        conn_queued_more(c);
}

void conn_notify_begin(struct conn *c, const char *method, size_t hint, struct jsonw *ret)
{
        rpc_notification_begin(ret, outq_begin(&c->out, hint + 64), method);
        jsonw_object(ret);
}

void conn_request_begin(struct conn *c, const struct rpc_id *id, const char *method, size_t hint,
                        struct jsonw *ret)
{
        rpc_request_begin(ret, outq_begin(&c->out, hint + 64), id, method);
        jsonw_object(ret);
}

/* Ends a message that the peer has not asked for. */
static void end_unasked(struct conn *c, int r)
{
        if (r < 0)
                outq_cancel(&c->out);
        else
                r = outq_end(&c->out);
        if (r < 0) {
                /* The client would not know that it missed something. So the connection is ended. */
                log_warn("notification larger than the client reads", "peer=%s", c->peer);
                conn_close(c, WS_CLOSE_TOO_BIG);
        }
        conn_queued_more(c);
}

void conn_notify_end(struct conn *c, struct jsonw *w)
{
        jsonw_object_end(w);
        end_unasked(c, rpc_notification_end(w));
}

void conn_request_end(struct conn *c, struct jsonw *w)
{
        jsonw_object_end(w);
        end_unasked(c, rpc_request_end(w));
}

/* Called when both sides have sent their close frames. close() would make the kernel answer unread bytes with a reset, and the
 * peer could lose our close frame. So only our direction is shut down, and input is discarded until the peer closes. */
static void shut(struct conn *c)
{
        c->is_shut = true;
        if (c->framing == FRAMING_LINES || shutdown(c->out_fd, SHUT_WR) < 0)
                conn_drop(c);
}

/* Switches TCP_USER_TIMEOUT off while the peer does not read: the timeout would end the connection although the peer is alive.
 * Meanwhile pings find out whether the peer is dead. */
static void set_backed_up(struct conn *c, bool is_backed_up)
{
        if (c->is_backed_up == is_backed_up)
                return;
        c->is_backed_up = is_backed_up;
        unsigned timeout = is_backed_up ? 0 : (unsigned)c->conns->options->tcp_user_timeout_ms;
        if (c->framing == FRAMING_WS) /* on a unix socket, which has no such option, the call fails */
                (void)setsockopt(c->out_fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static void flush(struct conn *c)
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
                conn_heard(c); /* the kernel's buffer was full and has room again: the peer reads */
        set_backed_up(c, r > 0);
        if (outq_backlog(&c->out) < LIMIT_OUT_LOW_BYTES)
                conn_unblock(c, BLOCK_OUTPUT);
        if (c->state == CONN_OPEN)
                c->conns->events->flushed(c);
        if (c->out.bytes == 0 && c->state == CONN_CLOSING && c->has_peer_closed && !c->is_shut)
                shut(c);
        if (c->state != CONN_DEAD)
                conn_update_watches(c);
}

void conn_flush_all(struct conns *s)
{
        struct conn *c;
        while ((c = list_first(&s->dirty, struct conn, dirty_link)))
                flush(c);
}

/* m_http: the method http/request (docs/PROTOCOL.md). farhand-net makes the transfer; this file sends the answers and
 * notifications.
 *
 * A call without streaming is parked and collects its body until the answer. A call with streaming is answered with the head
 * and then stays in the list of its client. What arrives in one turn is sent as one delta. While the connection takes no output,
 * the bytes are kept, and farhand-net gets no credit to send more, so that the transfer pauses.
 */
#include "server/m_http.h"

#include "base/base64.h"
#include "base/mem.h"
#include "core/parked.h"
#include "proto/http.h"
#include "server/methods.h"
#include "server/net_helper.h"

#include <errno.h>
#include <unistd.h>

#define ENVELOPE_BYTES 512 /* JSON of an answer or a delta, around requestId, headers and body */

struct http_call {
        struct net_call net;
        struct parked parked; /* in use until the request is answered */
        struct client *client;
        struct list client_link; /* client::http_calls */
        char *request_id;
        bool streams;
        bool is_answered;
        unsigned status;
        struct buf headers; /* a JSON array; released when the request is answered */
        struct buf body;    /* without streaming: the body so far; with streaming: bytes not yet sent */
        uint64_t reserved;  /* bytes taken by net_reserve */
        uint64_t seq;       /* number of the last delta */
        bool has_ended;
        char *failure; /* why a stream has ended early; NULL: it has not failed */
        struct deferred flush;
};

static void call_free(struct http_call *call)
{
        net_call_cancel(&call->net);
        deferred_cancel(&call->flush);
        list_remove(&call->client_link);
        call->client->http_count--;
        net_unreserve(call->client->server, call->reserved);
        buf_release(&call->headers);
        buf_release(&call->body);
        free(call->request_id);
        free(call->failure);
        free(call);
}

/* Called when the request was answered or its connection has ended. Frees the call unless it was answered, because then it may
 * still stream. */
static void forget(struct parked *p)
{
        struct http_call *call = container_of(p, struct http_call, parked);
        if (!call->is_answered)
                call_free(call);
}

static void fail(struct http_call *call, const struct err *err)
{
        call->is_answered = true;
        parked_fail(&call->parked, err);
        call_free(call);
}

/* --- the answer to a call ----------------------------------------------------------------------------------------- */

/* Returns whether a header has only visible ASCII, blanks and tabs. Other headers are not sent to clients. */
static bool is_shown(struct slice value)
{
        for (size_t i = 0; i < value.n; i++) {
                unsigned char c = (unsigned char)value.p[i];
                if ((c < ' ' && c != '\t') || c >= 0x7f)
                        return false;
        }
        return true;
}

static void write_headers(struct buf *out, const struct netmsg_head *head)
{
        _arena_ struct arena a = ARENA_INIT;
        struct jsonw w;
        jsonw_begin(&w, out);
        jsonw_array(&w);
        for (size_t i = 0; i < head->header_count; i++) {
                struct slice name = head->headers[i].name, value = head->headers[i].value;
                if (!is_shown(value) || !is_shown(name))
                        continue;
                char *lower = arena_dup(&a, name);
                for (size_t k = 0; k < name.n; k++)
                        lower[k] = ascii_lower(lower[k]);
                jsonw_object(&w);
                jsonw_member_string(&w, "name", slice_from(lower, name.n));
                jsonw_member_string(&w, "value", value);
                jsonw_object_end(&w);
        }
        jsonw_array_end(&w);
        must(jsonw_end(&w) == 0);
}

/* Returns how many bytes fit as base64 into one message to this client, when the other members of the message take `members`
 * bytes. */
static size_t room_beside(const struct http_call *call, size_t members)
{
        size_t max = call->client->conn->out.max_message, taken = ENVELOPE_BYTES + members;
        return max > taken ? (max - taken) / 4 * 3 : 0;
}

/* Returns how many bytes of a body fit into the answer. To be called before the answer. */
static size_t body_max(const struct http_call *call)
{
        const struct rpc_id *id = &call->parked.id;
        return room_beside(call, call->headers.n + (id->is_string ? jsonw_string_max(id->string) : 0));
}

static void answer(struct http_call *call)
{
        struct jsonw w;
        call->is_answered = true;
        struct slice body = call->streams ? S("") : buf_slice(&call->body);
        struct conn *conn = call->client->conn;
        const struct rpc_id *id = &call->parked.id;
        conn_reply_begin(conn, id, ENVELOPE_BYTES + call->headers.n + base64_encoded_size(body.n), &w);
        jsonw_member_u64(&w, "status", call->status);
        jsonw_key(&w, "headers");
        jsonw_raw(&w, buf_slice(&call->headers));
        jsonw_key(&w, "bodyBase64");
        jsonw_base64(&w, body);
        conn_reply_end(conn, id, &w);
        parked_done(&call->parked);
        buf_release(&call->headers);
}

static void fail_too_large(struct http_call *call)
{
        struct err err = ERR_INIT;
        err_set(&err, RPC_INTERNAL, -EMSGSIZE,
                "failed to read http/request response body: it is larger than the %zu bytes that an answer "
                "to this client can hold; use streamResponse",
                body_max(call));
        err.reason = "answerTooLarge";
        fail(call, &err);
}

/* --- streaming the body ------------------------------------------------------------------------------------------- */

static void send_delta(struct http_call *call, struct slice bytes, bool is_last)
{
        struct jsonw w;
        struct slice id = slice_from_str(call->request_id);
        conn_notify_begin(call->client->conn, "http/request/bodyDelta",
                          ENVELOPE_BYTES + jsonw_string_max(id) + base64_encoded_size(bytes.n), &w);
        jsonw_member_string(&w, "requestId", id);
        jsonw_member_u64(&w, "seq", ++call->seq);
        jsonw_key(&w, "deltaBase64");
        jsonw_base64(&w, bytes);
        jsonw_member_bool(&w, "done", is_last);
        jsonw_member_str(&w, "error", is_last ? call->failure : NULL);
        conn_notify_end(call->client->conn, &w);
}

static size_t delta_max(const struct http_call *call)
{
        size_t room = room_beside(call, jsonw_string_max(slice_from_str(call->request_id)));
        return MIN(MAX(room, (size_t)1), (size_t)LIMIT_HTTP_DELTA_BYTES);
}

/* Sends what the connection takes. Frees the call after the last delta. */
static void stream(struct http_call *call)
{
        struct client *c = call->client;
        size_t at = 0;
        while (at < call->body.n && conn_wants_output(c->conn)) {
                size_t n = MIN(call->body.n - at, delta_max(call));
                send_delta(call, slice_from(call->body.p + at, n), false);
                if (!conn_is_usable(c->conn))
                        return; /* send_delta had to close the connection, and `call` was freed */
                at += n;
        }
        net_call_credit(&call->net, at);
        if (at > 0) { /* next time the other calls of the client come first */
                list_remove(&call->client_link);
                list_append(&c->http_calls, &call->client_link);
        }
        if (at < call->body.n) {
                buf_consume(&call->body, at);
                return;
        }
        buf_release(&call->body);
        if (call->has_ended && conn_wants_output(c->conn)) {
                send_delta(call, S(""), true);
                if (conn_is_usable(c->conn))
                        call_free(call);
        }
}

static void on_flush(struct deferred *d)
{
        stream(container_of(d, struct http_call, flush));
}

void http_resume(struct client *c)
{
        struct http_call *call;
        list_each (call, &c->http_calls, client_link)
                if (call->streams && call->is_answered)
                        loop_defer(&c->server->loop, &call->flush);
}

void http_drop_all(struct client *c)
{
        struct http_call *call;
        while ((call = list_first(&c->http_calls, struct http_call, client_link)))
                call_free(call);
}

/* --- events of the transfer --------------------------------------------------------------------------------------- */

static void on_head(struct net_call *net, const struct netmsg_head *head)
{
        struct http_call *call = container_of(net, struct http_call, net);
        call->status = head->status;
        write_headers(&call->headers, head);
        if (body_max(call) == 0)
                fail_too_large(call);
        else if (call->streams)
                answer(call);
}

static void collect(struct http_call *call, struct slice bytes)
{
        if (bytes.n > body_max(call) - MIN(call->body.n, body_max(call))) {
                fail_too_large(call);
                return;
        }
        if (!net_reserve(call->client->server, bytes.n)) {
                struct err err = ERR_INIT;
                (void)req_limit(&err, "bytes of http bodies", LIMIT_HTTP_BODIES_BYTES);
                fail(call, &err);
                return;
        }
        call->reserved += bytes.n;
        must(buf_append(&call->body, bytes) == 0);
        net_call_credit(&call->net, bytes.n);
}

static void on_data(struct net_call *net, struct slice bytes)
{
        struct http_call *call = container_of(net, struct http_call, net);
        if (!call->streams) {
                collect(call, bytes);
                return;
        }
        must(buf_append(&call->body, bytes) == 0); /* the helper sends no more than its credit */
        loop_defer(&call->client->server->loop, &call->flush);
}

static void on_end(struct net_call *net, const struct netmsg_end *end)
{
        struct http_call *call = container_of(net, struct http_call, net);
        bool has_failed = end->outcome == NETMSG_FAILED;
        if (call->is_answered) {
                call->has_ended = true;
                call->failure = has_failed ? slice_dup(end->text) : NULL;
                loop_defer(&call->client->server->loop, &call->flush);
        } else if (has_failed) {
                struct err err = ERR_INIT;
                err_set(&err, RPC_INTERNAL, -EIO, "%s: %.*s",
                        net->has_head ? "failed to read http/request response body" : "http/request failed",
                        SLICE(end->text));
                fail(call, &err);
        } else {
                answer(call);
                call_free(call);
        }
}

static const struct net_call_events events = { .head = on_head, .data = on_data, .end = on_end };

/* --- starting a call ---------------------------------------------------------------------------------------------- */

static int check_admission(const struct client *c, const struct http_request_params *in, struct err *err)
{
        const struct http_call *other;
        if (in->streams) {
                list_each (other, &c->http_calls, client_link) {
                        if (other->streams && slice_eq(slice_from_str(other->request_id), in->request_id))
                                return err_set(
                                        err, RPC_INVALID_PARAMS, -EEXIST,
                                        "http/request streamResponse requestId `%.*s` is already active",
                                        SLICE(in->request_id));
                }
        }
        if (c->http_count >= LIMIT_HTTP_CONN_REQUESTS)
                return req_limit(err, "http requests of a connection", LIMIT_HTTP_CONN_REQUESTS);
        if (in->has_timeout && in->timeout_ms == 0)
                return err_set(err, RPC_INTERNAL, -ETIMEDOUT, "http/request failed: request timed out");
        return 0;
}

static struct http_call *call_new(struct client *c, const struct http_request_params *in)
{
        struct http_call *call = mem_new(struct http_call);
        call->client = c;
        call->streams = in->streams;
        call->request_id = slice_dup(in->request_id);
        buf_init(&call->headers, 16 * LIMIT_HTTP_HEAD_BYTES);
        buf_init(&call->body, SIZE_MAX / 2);
        deferred_init(&call->flush, on_flush);
        list_append(&c->http_calls, &call->client_link);
        c->http_count++;
        return call;
}

static int handle_request(struct req *req, const void *params, struct err *err)
{
        const struct http_request_params *in = params;
        struct client *c = req->client;
        struct http_outgoing out;
        int r = http_outgoing_build(req->arena, in, (const char *const *)environ, &out, err);
        if (r < 0)
                return r;
        r = check_admission(c, in, err);
        if (r < 0)
                return r;
        struct arena *kept = req->may_keep ? req->arena : NULL;
        uint64_t held = kept ? MAX(in->body.n, kept->bytes) : in->body.n;
        if (!net_reserve(c->server, held))
                return req_limit(err, "bytes of http bodies", LIMIT_HTTP_BODIES_BYTES);
        struct http_call *call = call_new(c, in);
        call->reserved = held;
        struct netmsg_request m = {
                .method = out.method,
                .url = out.url,
                .follows = !in->stops_at_redirect,
                .timeout_ms = in->has_timeout ? in->timeout_ms : NETMSG_NO_TIMEOUT,
                .headers = out.headers,
                .header_count = out.header_count,
                .private_names = out.private_names,
        };
        /* parked_init copies the id. It must do so before net_call_start, which may take the arena that holds the id. */
        r = parked_init(&call->parked, req, 0, forget, err);
        if (r < 0) {
                call_free(call);
                return r;
        }
        r = net_call_start(c->server, &call->net, &events, &m, in->body, kept, err);
        if (r < 0)
                parked_done(&call->parked); /* frees `call` */
        return r;
}

const struct method http_methods[] = {
        { .name = "http/request",
          .family = "http",
          .needs = NEEDS_READY,
          .params_size = sizeof(struct http_request_params),
          .decode = http_request_decode,
          .handle = handle_request },
};
const size_t http_method_count = ARRAY_LEN(http_methods);

/* dispatch: parses a message, makes the admission checks and calls the handler of its method. */
#include "server/dispatch.h"

#include "base/log.h"
#include "core/inquiry.h"
#include "core/job.h"
#include "core/server.h"
#include "server/methods.h"
#include "session/session.h"

#include <errno.h>

static int decode(const struct method *m, struct arena *a, const struct json_doc *doc,
                  const struct json *params, void **ret, bool *ret_is_unordered, struct err *err)
{
        *ret = arena_zalloc(a, MAX(m->params_size, 1));
        int r = m->decode(a, doc, params, *ret, err);
        return r == 0 && method_is_file(m) ? decode_unordered(a, doc, params, ret_is_unordered, err) : r;
}

/* Makes the text of a message outlive the turn, for jobs: their params must not point into the input buffer of the connection. The
 * buffer of a large message is taken from the connection, a small message is copied. JSON tokens are offsets and stay valid. */
static void keep_text(struct req *req, struct json_doc *doc, struct slice text)
{
        if (conn_take_message(req->client->conn, text, &req->text))
                return;
        char *copy = arena_alloc(req->arena, text.n + BUF_PADDING);
        memcpy(copy, text.p, text.n);
        doc->text = copy;
}

/* Handles a request with a known method. When a thread has parsed the request, `parsed` is not NULL, and the text is in
 * req->text. */
static int on_known(struct req *req, const struct method *m, const struct rpc_message *msg, struct slice text,
                    const struct parsed *parsed, struct err *err)
{
        struct json_doc doc = msg->doc;
        void *params;
        int r;
        req->method = m;
        /* A process/start must not overtake file changes that were requested before it. */
        bool may_wait = m->key == KEY_PROCESS && req->client->jobs.count > 0;
        if (parsed) {
                params = parsed->params;
                req->is_unordered = parsed->is_unordered;
                *err = parsed->err;
                r = parsed->decoded;
        } else {
                if (method_is_file(m) || m->may_be_job || may_wait)
                        keep_text(req, &doc, text);
                r = decode(m, req->arena, &doc, msg->params, &params, &req->is_unordered, err);
        }
        if (r == 0)
                r = req_admit(m, req->client, err);
        if (r < 0)
                return r;
        /* A process of another session may have the id of one that this client has asked to start. */
        if (may_wait && !session_is_elsewhere(req->client, method_session_of(m, params)) &&
            job_must_hold(req, params))
                return job_hold(req, params, err);
        return m->handle ? m->handle(req, params, err) : job_submit(req, job_class_of(m), params, err);
}

static void on_request(struct req *req, const struct rpc_message *msg, struct slice text,
                       const struct parsed *parsed)
{
        struct err err = ERR_INIT;
        const struct method *m = parsed ? parsed->method : method_find(msg->method);
        struct client *c = req->client;
        int r = m ? on_known(req, m, msg, text, parsed, &err)
                  : err_set(&err, RPC_METHOD_NOT_FOUND, -ENOSYS, "unknown method `%.*s`",
                            (int)MIN(msg->method.n, ERR_TEXT_BYTES), msg->method.p);
        if (r < 0)
                conn_fail(c->conn, &msg->id, &err, NULL);
}

/* Clients may send only the notification `initialized`. Other notifications are answered with an error; the reference server
 * closes the connection, but no client depends on that. When `initialized` comes before `initialize`, the connection is closed. */
static void on_notification(struct client *c, const struct rpc_message *msg)
{
        if (!slice_eq(msg->method, S("initialized"))) {
                struct err err = ERR_INIT;
                err_set(&err, RPC_INVALID_REQUEST, -EPROTO, "unexpected notification: %.*s",
                        (int)MIN(msg->method.n, ERR_TEXT_BYTES), msg->method.p);
                conn_fail(c->conn, &RPC_ID_NONE, &err, NULL);
                return;
        }
        if (!c->is_initialized) {
                conn_close(c->conn, WS_CLOSE_POLICY);
                return;
        }
        c->is_ready = true;
}

static void on_malformed(struct client *c, const struct json_error *why)
{
        struct err err = ERR_INIT;
        if (c->conn->framing == FRAMING_LINES)
                err_set(&err, RPC_INVALID_REQUEST, -EPROTO,
                        "failed to parse JSON-RPC message from exec-server stdio: %s", why->text);
        else
                err_set(&err, RPC_INVALID_REQUEST, -EPROTO,
                        "failed to parse websocket JSON-RPC message from exec-server websocket %s: %s",
                        c->conn->peer, why->text);
        conn_fail(c->conn, &RPC_ID_NONE, &err, NULL);
}

static void on_message(struct req *req, const struct rpc_message *msg, struct slice text,
                       const struct parsed *parsed)
{
        switch (msg->kind) {
        case RPC_REQUEST:
                on_request(req, msg, text, parsed);
                break;
        case RPC_NOTIFICATION:
                on_notification(req->client, msg);
                break;
        case RPC_RESPONSE:
        case RPC_ERROR:
                if (!inquiry_take(req->client, msg))
                        conn_close(req->client->conn, WS_CLOSE_POLICY); /* as the reference server */
                break;
        }
}

void dispatch_message(struct client *c, struct slice text)
{
        _arena_ struct arena a = ARENA_INIT;
        struct rpc_message msg;
        struct json_error why;
        if (rpc_parse(&a, text, &msg, &why) < 0) {
                on_malformed(c, &why);
                return;
        }
        struct req req = { .server = c->server, .client = c, .id = &msg.id, .arena = &a };
        buf_init(&req.text, 0);
        on_message(&req, &msg, text, NULL);
        conns_free_buf(&c->server->conns, &req.text);
}

struct parsed *dispatch_parse(struct arena *a, struct slice text)
{
        struct parsed *ret = arena_zalloc(a, sizeof(*ret));
        ret->err = ERR_INIT;
        ret->result = rpc_parse(a, text, &ret->msg, &ret->why);
        if (ret->result < 0 || ret->msg.kind != RPC_REQUEST)
                return ret;
        ret->method = method_find(ret->msg.method);
        if (ret->method)
                ret->decoded = decode(ret->method, a, &ret->msg.doc, ret->msg.params, &ret->params,
                                      &ret->is_unordered, &ret->err);
        return ret;
}

void dispatch_parsed(struct client *c, struct arena *a, struct buf *text, const struct parsed *parsed)
{
        if (parsed->result < 0) {
                on_malformed(c, &parsed->why);
                return;
        }
        const struct rpc_message *msg = &parsed->msg;
        struct req req = { .server = c->server, .client = c, .id = &msg->id, .arena = a, .may_keep = true };
        req.text = *text;
        buf_init(text, text->cap);
        on_message(&req, msg, buf_slice(&req.text), parsed);
        conns_free_buf(&c->server->conns, &req.text);
}

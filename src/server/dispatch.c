#include "server/dispatch.h"

#include "base/log.h"
#include "server/job.h"
#include "server/methods.h"
#include "server/session.h"

#include <errno.h>

/* Every request by name. One line per method; its descriptor stands beside its handler. */
/* clang-format off */
static const struct method *const methods[] = {
        &m_initialize,
        &m_process_start,
        &m_process_read,
        &m_process_write,
        &m_process_signal,
        &m_process_terminate,
        &m_process_close_stdin,
        &m_process_resize,
        &m_process_wait,
        &m_process_snapshot,
        &m_process_list,
        &m_session_list,
        &m_environment_info,
        &m_environment_status,
        &m_http_request,
        &m_fs_read_file,
        &m_fs_write_file,
        &m_fs_get_metadata,
        &m_fs_canonicalize,
        &m_fs_read_link,
        &m_fs_read_directory,
        &m_fs_walk,
        &m_fs_create_directory,
        &m_fs_remove,
        &m_fs_copy,
        &m_fs_rename,
        &m_fs_symlink,
        &m_fs_set_metadata,
        &m_fs_open,
        &m_fs_read_block,
        &m_fs_write_block,
        &m_fs_close,
        &m_discover,
        &m_fs_watch,
        &m_fs_unwatch,
        &m_fs_watch_missing,
};
/* clang-format on */

static const struct method *find_method(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(methods); i++)
                if (slice_eq(name, slice_from_str(methods[i]->name)))
                        return methods[i];
        return NULL;
}

void req_reply_begin(struct req *req, size_t hint, struct jsonw *ret)
{
        conn_reply_begin(req->conn, req->id, hint, ret);
}

void req_reply_end(struct req *req, struct jsonw *w)
{
        conn_reply_end(req->conn, req->id, w);
}

int dispatch_limit(struct err *err, const char *what, uint64_t value)
{
        err_set(err, RPC_LIMIT, -ENOBUFS, "limit of the server reached: %s (%llu)", what,
                (unsigned long long)value);
        err->limit = what;
        err->limit_value = value;
        return err->code;
}

/* All checks between a known method and its handler, in the order that clients can observe. */
static int admit(const struct method *m, struct req *req, const struct json *params, void **ret_params,
                 struct err *err)
{
        *ret_params = arena_zalloc(req->arena, MAX(m->params_size, 1));
        int r = m->decode(req->arena, req->doc, params, *ret_params, err);
        if (r < 0)
                return r;
        if (!(m->needs & NEEDS_READY))
                return 0;
        struct conn *c = req->conn;
        if (!c->is_initialized)
                return err_set(err, RPC_INVALID_REQUEST, -EPROTO,
                               "client must call initialize before using %s methods", m->family);
        if (!c->is_ready)
                return err_set(err, RPC_INVALID_REQUEST, -EPROTO,
                               "client must send initialized before using %s methods", m->family);
        if (!c->session)
                return err_set(err, RPC_INVALID_REQUEST, -ESTALE,
                               "session has been resumed by another connection");
        return 0;
}

/* A job outlives the turn, so its params must not point into what the connection reads into: a large message is taken from
 * the connection as it is, a small one copied. Tokens are offsets, so they do not mind. */
static void keep_text(struct req *req, struct json_doc *doc, struct slice text)
{
        struct conn *c = req->conn;
        if (c->is_dispatching && text.p == c->message.p && !spares_is_wasted(&c->message)) {
                req->text = c->message;
                buf_init(&c->message, c->message.cap);
                return;
        }
        char *copy = arena_alloc(req->arena, text.n + BUF_PADDING);
        memcpy(copy, text.p, text.n);
        doc->text = copy;
}

/* A process must not overtake the file changes that were asked for before it. */
static bool is_held(struct req *req, const struct rpc_message *msg, struct slice text, int *ret,
                    struct err *err)
{
        if (req->conn->jobs.count == 0 || !slice_starts(msg->method, S("process/")))
                return false;
        const struct json *id = json_get(&msg->doc, msg->params, S("processId"));
        if (!id || id->type != JSON_STRING)
                return false;
        struct slice process_id = json_string(req->arena, &msg->doc, id);
        if (!job_must_hold(req->conn, msg->method, process_id))
                return false;
        *ret = job_hold(req, text, msg->method, process_id, err);
        return true;
}

static void on_request(struct conn *c, struct arena *a, const struct rpc_message *msg, struct slice text)
{
        struct err err = ERR_INIT;
        struct json_doc doc = msg->doc;
        struct req req = { .server = c->server, .conn = c, .id = &msg->id, .arena = a, .doc = &doc };
        const struct method *m = find_method(msg->method);
        void *params = NULL;
        int r;
        buf_init(&req.text, 0);
        if (m && (m->job || m->may_be_job))
                keep_text(&req, &doc, text);
        if (is_held(&req, msg, text, &r, &err))
                m = NULL;
        else if (!m)
                r = err_set(&err, RPC_METHOD_NOT_FOUND, -ENOSYS,
                            "exec-server stub does not implement `%.*s` yet",
                            (int)MIN(msg->method.n, ERR_TEXT_BYTES), msg->method.p);
        else
                r = admit(m, &req, msg->params, &params, &err);
        if (r == 0 && m)
                r = m->job ? job_submit(&req, m->job, params, &err) : m->handle(&req, params, &err);
        if (r < 0)
                conn_fail(c, &msg->id, &err, NULL);
        buf_release(&req.text);
}

/* A client may send one notification. Anything else is answered, not punished: the reference closes here, but nobody
 * depends on it. `initialized` too early says that the peer does not follow the protocol at all. */
static void on_notification(struct conn *c, const struct rpc_message *msg)
{
        if (!slice_eq(msg->method, S("initialized"))) {
                struct err err = ERR_INIT;
                err_set(&err, RPC_INVALID_REQUEST, -EPROTO, "unexpected notification: %.*s",
                        (int)MIN(msg->method.n, ERR_TEXT_BYTES), msg->method.p);
                conn_fail(c, &RPC_ID_NONE, &err, NULL);
                return;
        }
        if (!c->is_initialized) {
                conn_close(c, WS_CLOSE_POLICY);
                return;
        }
        c->is_ready = true;
}

static void on_malformed(struct conn *c, const struct json_error *why)
{
        struct err err = ERR_INIT;
        if (c->framing == FRAMING_LINES)
                err_set(&err, RPC_INVALID_REQUEST, -EPROTO,
                        "failed to parse JSON-RPC message from exec-server stdio: %s", why->text);
        else
                err_set(&err, RPC_INVALID_REQUEST, -EPROTO,
                        "failed to parse websocket JSON-RPC message from exec-server websocket %s: %s",
                        c->peer, why->text);
        conn_fail(c, &RPC_ID_NONE, &err, NULL);
}

void dispatch_message(struct conn *c, struct slice text)
{
        _arena_ struct arena a = ARENA_INIT;
        struct rpc_message msg;
        struct json_error why;
        if (rpc_parse(&a, text, &msg, &why) < 0) {
                on_malformed(c, &why);
                return;
        }
        switch (msg.kind) {
        case RPC_REQUEST:
                on_request(c, &a, &msg, text);
                break;
        case RPC_NOTIFICATION:
                on_notification(c, &msg);
                break;
        case RPC_RESPONSE:
        case RPC_ERROR:
                /* We ask clients nothing, so this answers nothing. */
                conn_close(c, WS_CLOSE_POLICY);
                break;
        }
}

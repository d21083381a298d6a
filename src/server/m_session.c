/* m_session: initialize (PROTOCOL.md 3.1 and 4, EXTENSIONS.md): a new session, or an old one again. */
#include "base/base64.h"
#include "base/log.h"
#include "proto/session.h"
#include "server/environment.h"
#include "server/methods.h"
#include "server/parked.h"
#include "server/session.h"

#include <errno.h>

/* The session leaves its connection, which is told and closed; what waited there is answered. */
static void take_over(struct session *session)
{
        struct conn *old = session->conn;
        struct err err = ERR_INIT;
        err_set(&err, RPC_INVALID_REQUEST, -ESTALE, "session has been resumed by another connection");
        parked_fail_all(old, &err);
        struct jsonw w;
        conn_notify_begin(old, "session/takenOver", 64, &w);
        jsonw_object(&w);
        jsonw_member_str(&w, "sessionId", session->id);
        jsonw_object_end(&w);
        conn_notify_end(old, &w);
        log_info("session taken over", "session=%.13s peer=%s", session->id, old->peer);
        if (session->conn)              /* it may not have taken the notification */
                session_leave(session); /* without the end that a zero detach time would bring */
        conn_close(old, WS_CLOSE_TAKEN_OVER);
}

static int find_old(struct req *req, const struct initialize *in, struct session **ret, struct err *err)
{
        struct session *session = session_find(req->server, in->resume_session_id);
        if (!session) {
                err_set(err, RPC_INVALID_REQUEST, -ENOENT, "unknown session id %.*s",
                        (int)MIN(in->resume_session_id.n, 1024), in->resume_session_id.p);
                err->reason = session_missing_reason(req->server, in->resume_session_id);
                return err->code;
        }
        if (session->conn && !in->takeover) {
                session_probe(session);
                return err_set(err, RPC_SESSION_ATTACHED, -EBUSY,
                               "session %s is already attached to another connection", session->id);
        }
        if (session->conn)
                take_over(session);
        *ret = session;
        return 0;
}

static uint64_t grant_detach_ms(const struct config *config, const struct initialize *in)
{
        if (!in->has_detach_ms)
                return config->detached_session_ttl_ms;
        return MIN(in->detach_ms, config->max_detached_session_ttl_ms);
}

static int find_or_make(struct req *req, const struct initialize *in, struct session **ret, struct err *err)
{
        struct server *s = req->server;
        if (in->resume_session_id.p) {
                int r = find_old(req, in, ret, err);
                if (r == 0 && in->has_detach_ms)
                        (*ret)->detach_ms = grant_detach_ms(s->config, in);
                return r;
        }
        if (s->is_draining)
                return err_set(err, RPC_DRAINING, -ESHUTDOWN, "the server is shutting down");
        if (map_count(&s->sessions) >= s->config->max_sessions)
                return dispatch_limit(err, "max_sessions", s->config->max_sessions);
        *ret = session_new(s, in->client_name, grant_detach_ms(s->config, in));
        return 0;
}

static void write_result(struct req *req, const struct session *session)
{
        const struct config *config = req->server->config;
        struct jsonw w;
        req_reply_begin(req, 2048, &w);
        jsonw_object(&w);
        jsonw_member_str(&w, "sessionId", session->id);
        jsonw_key(&w, "environmentInfo");
        environment_info_write(&w, preparer_backends_known(&req->server->boxes.preparer));
        jsonw_member_str(&w, "serverId", req->server->id);
        jsonw_member_u64(&w, "detachMs", session->detach_ms);
        jsonw_key(&w, "limits");
        jsonw_object(&w);
        jsonw_member_u64(&w, "maxMessageBytes", config->max_message_bytes);
        jsonw_member_u64(&w, "maxFrameBytes", config->max_message_bytes);
        jsonw_member_u64(&w, "retainedOutputBytesPerProcess", config->retained_output_bytes_per_process);
        jsonw_member_u64(&w, "maxProcessesPerSession", config->max_processes_per_session);
        jsonw_object_end(&w);
        jsonw_object_end(&w);
        req_reply_end(req, &w);
}

/* A client that reads less could not be told of one chunk of output. */
static int check_max_message(struct req *req, const struct initialize *in, struct err *err)
{
        size_t least =
                base64_encoded_size(req->server->config->output_chunk_bytes) + 8 * LIMIT_PROCESS_ID_BYTES;
        if (in->has_max_message_bytes && in->max_message_bytes < least)
                return err_set(err, RPC_INVALID_PARAMS, -EINVAL, "maxMessageBytes: must be at least %zu",
                               least);
        return 0;
}

static int handle(struct req *req, const void *params, struct err *err)
{
        const struct initialize *in = params;
        struct conn *c = req->conn;
        if (c->is_initialized)
                return err_set(err, RPC_INVALID_REQUEST, -EALREADY,
                               "initialize may only be sent once per connection");
        struct session *session = NULL;
        int r = check_max_message(req, in, err);
        if (r == 0)
                r = find_or_make(req, in, &session, err);
        if (r < 0)
                return r;
        c->is_initialized = true;
        c->wants_started = in->wants_started;
        c->wants_failed = in->wants_failed;
        if (in->has_max_message_bytes)
                c->out.max_message = (size_t)MIN(in->max_message_bytes, SIZE_MAX / 4);
        write_result(req, session);
        session_attach(session, c); /* after the answer: notifications follow it */
        return 0;
}

const struct method m_initialize = {
        .name = "initialize",
        .family = "session",
        .needs = NEEDS_NOTHING,
        .params_size = sizeof(struct initialize),
        .decode = initialize_decode,
        .handle = handle,
};

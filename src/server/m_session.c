/* m_session: the methods initialize and session/list (docs/PROTOCOL.md). initialize makes or resumes a session. */
#include "base/base64.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "core/environment.h"
#include "core/parked.h"
#include "gate/gate.h"
#include "intercept/tested.h"
#include "proto/control.h"
#include "proto/session.h"
#include "server/methods.h"
#include "session/session_life.h"

#include <errno.h>

/* Takes the session from its old connection: fails the requests that wait there, notifies the old client, and closes the
 * connection. */
static void take_over(struct session *session)
{
        struct client *old = session->client;
        struct err err = ERR_INIT;
        err_set(&err, RPC_INVALID_REQUEST, -ESTALE, "session has been resumed by another connection");
        parked_fail_all(old, &err);
        struct jsonw w;
        conn_notify_begin(old->conn, "session/takenOver", 64, &w);
        jsonw_member_str(&w, "sessionId", session->id);
        conn_notify_end(old->conn, &w);
        log_info("session taken over", "session=%.13s peer=%s", session->id, old->conn->peer);
        if (session->client) /* the notification may have closed the connection, and detached the session */
                session_leave(session); /* not session_detach, which ends a session whose detach time is 0 */
        conn_close(old->conn, WS_CLOSE_TAKEN_OVER);
}

static int find_old(struct req *req, const struct initialize *in, struct session **ret, struct err *err)
{
        struct session *session = session_find(req->server, &req->client->conn->who, in->resume_session_id);
        if (!session)
                return session_unknown(req->server, &req->client->conn->who, in->resume_session_id, err);
        if (session->client && !in->takes_over) {
                session_probe(session);
                return err_set(err, RPC_SESSION_ATTACHED, -EBUSY,
                               "session %s is already attached to another connection", session->id);
        }
        if (session->client)
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
        if (map_count(&s->sessions) >= s->config->max_sessions && !session_make_room(s))
                return req_limit(err, "max_sessions", s->config->max_sessions);
        *ret = session_new(s, &req->client->conn->who, in->client_name, grant_detach_ms(s->config, in));
        return 0;
}

static void write_result(struct req *req, const struct session *session)
{
        const struct config *config = req->server->config;
        struct jsonw w;
        conn_reply_begin(req->client->conn, req->id, 2048, &w);
        jsonw_member_str(&w, "sessionId", session->id);
        jsonw_key(&w, "environmentInfo");
        jsonw_object(&w);
        environment_info_write(&w, preparer_backends_known(&req->server->confine.preparer),
                               intercept_means() != INTERCEPT_BY_NOTHING, gate_can_enforce(req->server));
        jsonw_object_end(&w);
        jsonw_member_str(&w, "serverId", req->server->id);
        jsonw_member_u64(&w, "detachMs", session->detach_ms);
        jsonw_key(&w, "limits");
        jsonw_object(&w);
        jsonw_member_u64(&w, "maxMessageBytes", config->conn.max_message_bytes);
        jsonw_member_u64(&w, "maxFrameBytes", config->conn.max_message_bytes);
        jsonw_member_u64(&w, "retainedOutputBytesPerProcess", config->retained_output_bytes_per_process);
        jsonw_member_u64(&w, "maxProcessesPerSession", config->max_processes_per_session);
        jsonw_object_end(&w);
        conn_reply_end(req->client->conn, req->id, &w);
}

/* Refuses a limit so small that one chunk of output would not fit into a message. */
static int check_max_message(struct req *req, const struct initialize *in, struct err *err)
{
        size_t least =
                base64_encoded_size(req->server->config->output_chunk_bytes) + 8 * LIMIT_PROCESS_ID_BYTES;
        if (in->has_max_message_bytes && in->max_message_bytes < least)
                return err_set(err, RPC_INVALID_PARAMS, -EINVAL, "maxMessageBytes: must be at least %zu",
                               least);
        return 0;
}

static int handle_initialize(struct req *req, const void *params, struct err *err)
{
        const struct initialize *in = params;
        struct client *c = req->client;
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
                c->conn->out.max_message = (size_t)MIN(in->max_message_bytes, SIZE_MAX / 4);
        write_result(req, session);
        session_attach(session, c); /* after the answer, so that notifications follow it */
        return 0;
}

/* --- session/list ------------------------------------------------------------------------------------------------- */

static void write_session(struct jsonw *w, const struct session *session, const struct client *reader)
{
        jsonw_object(w);
        jsonw_member_string(w, "sessionId", session_id_for(session, reader));
        jsonw_member_str(w, "clientName", session->client_name);
        jsonw_member_bool(w, "attached", session->client != NULL);
        jsonw_member_i64(w, "createdAtMs", session->created_at_ms);
        if (session->client)
                jsonw_member_null(w, "expiresAtMs");
        else
                jsonw_member_i64(w, "expiresAtMs",
                                 clock_unix_ms() + (int64_t)(session->expires_ms -
                                                             MIN(session->expires_ms, clock_mono_ms())));
        jsonw_member_u64(w, "processes", map_count(&session->tasks));
        jsonw_object_end(w);
}

static int handle_list(struct req *req, UNUSED const void *params, struct err *err)
{
        int r = req_check_server_scope(req, err);
        if (r < 0)
                return r;
        struct jsonw w;
        conn_reply_begin(req->client->conn, req->id, 512, &w);
        jsonw_key(&w, "sessions");
        jsonw_array(&w);
        const struct session *session;
        for (size_t pos = 0; (session = map_next(&req->server->sessions, &pos));)
                if (identity_may_see(&req->client->conn->who, session->owner))
                        write_session(&w, session, req->client);
        jsonw_array_end(&w);
        conn_reply_end(req->client->conn, req->id, &w);
        return 0;
}

const struct method session_methods[] = {
        { .name = "initialize", .family = "session", METHOD_PARAMS(initialize), .handle = handle_initialize },
        { .name = "session/list",
          .family = "exec",
          .needs = NEEDS_READY,
          .decode = session_list_decode,
          .handle = handle_list },
};
const size_t session_method_count = ARRAY_LEN(session_methods);

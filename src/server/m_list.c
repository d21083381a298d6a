/* m_list: process/list and session/list (EXTENSIONS.md): what runs here, and whose it is. */
#include "base/clock.h"
#include "base/uri.h"
#include "proto/control.h"
#include "server/exit_record.h"
#include "server/methods.h"
#include "server/session.h"
#include "server/task.h"

#include <errno.h>

static int check_scope(const struct req *req, struct err *err)
{
        if (req->server->config->allow_server_scope)
                return 0;
        return err_set(err, RPC_INVALID_REQUEST, -EPERM, "server scope is disabled");
}

static void write_time(struct jsonw *w, const char *key, int64_t at_ms)
{
        if (at_ms)
                jsonw_member_i64(w, key, at_ms);
        else
                jsonw_member_null(w, key);
}

static void write_cwd(struct jsonw *w, const char *cwd)
{
        _buf_ struct buf uri = BUF_INIT(SIZE_MAX / 4);
        jsonw_key(w, "cwd");
        if (uri_from_path(&uri, slice_from_str(cwd)) == 0)
                jsonw_string(w, buf_slice(&uri));
        else
                jsonw_null(w);
}

static void write_task(struct jsonw *w, const struct task *t, bool with_session)
{
        const struct process *p = t->process;
        bool has_exited = process_has_exited(p);
        jsonw_object(w);
        jsonw_member_string(w, "processId", task_id(t));
        if (with_session)
                jsonw_member_str(w, "sessionId", t->session->id);
        jsonw_key(w, "argv");
        jsonw_raw(w, t->argv_json ? slice_from_str(t->argv_json) : S("[]"));
        write_cwd(w, t->cwd);
        jsonw_member_bool(w, "tty", p->is_tty);
        if (p->pid)
                jsonw_member_i64(w, "pid", p->pid);
        else
                jsonw_member_null(w, "pid");
        write_time(w, "startedAtMs", p->started_at_ms);
        jsonw_member_bool(w, "running", !has_exited);
        jsonw_member_bool(w, "closed", p->state == PROC_CLOSED);
        if (has_exited)
                jsonw_member_i64(w, "exitCode", p->exit_code);
        else
                jsonw_member_null(w, "exitCode");
        write_time(w, "lastOutputAtMs", p->last_output_at_ms);
        jsonw_member_u64(w, "retainedBytes", p->output.bytes);
        jsonw_member_u64(w, "droppedBytes", p->output.dropped_bytes);
        jsonw_member_u64(w, "nextSeq", p->next_seq);
        jsonw_member_str(w, "sandboxType", t->is_sandboxed ? "linuxSeccomp" : "none");
        jsonw_member_bool(w, "sandboxDenied", t->is_denied);
        if (has_exited)
                exit_record_write(w, t);
        jsonw_object_end(w);
}

static bool is_wanted(const struct req *req, const struct process_list *in, const struct task *t)
{
        if (!t->is_named || (!in->is_server_wide && t->session != req->conn->session))
                return false;
        return !in->process_id.p || slice_eq(in->process_id, task_id(t));
}

static int handle_list(struct req *req, const void *params, struct err *err)
{
        const struct process_list *in = params;
        int r = in->is_server_wide ? check_scope(req, err) : 0;
        if (r < 0)
                return r;
        struct jsonw w;
        req_reply_begin(req, 512, &w);
        jsonw_object(&w);
        jsonw_key(&w, "processes");
        jsonw_array(&w);
        const struct task *t;
        list_each (t, &req->server->tasks, server_link)
                if (is_wanted(req, in, t))
                        write_task(&w, t, in->is_server_wide);
        jsonw_array_end(&w);
        jsonw_object_end(&w);
        req_reply_end(req, &w);
        return 0;
}

static void write_session(struct jsonw *w, const struct session *session)
{
        jsonw_object(w);
        jsonw_member_str(w, "sessionId", session->id);
        jsonw_member_str(w, "clientName", session->client_name);
        jsonw_member_bool(w, "attached", session->conn != NULL);
        jsonw_member_i64(w, "createdAtMs", session->created_at_ms);
        if (session->conn)
                jsonw_member_null(w, "expiresAtMs");
        else
                jsonw_member_i64(w, "expiresAtMs",
                                 clock_unix_ms() + (int64_t)(session->expires_ms -
                                                             MIN(session->expires_ms, clock_mono_ms())));
        jsonw_member_u64(w, "processes", map_count(&session->tasks));
        jsonw_object_end(w);
}

static int handle_sessions(struct req *req, UNUSED const void *params, struct err *err)
{
        int r = check_scope(req, err);
        if (r < 0)
                return r;
        struct jsonw w;
        req_reply_begin(req, 512, &w);
        jsonw_object(&w);
        jsonw_key(&w, "sessions");
        jsonw_array(&w);
        const struct session *session;
        for (size_t pos = 0; (session = map_next(&req->server->sessions, &pos));)
                write_session(&w, session);
        jsonw_array_end(&w);
        jsonw_object_end(&w);
        req_reply_end(req, &w);
        return 0;
}

const struct method m_process_list = {
        .name = "process/list",
        .family = "exec",
        .needs = NEEDS_READY,
        .params_size = sizeof(struct process_list),
        .decode = process_list_decode,
        .handle = handle_list,
};

const struct method m_session_list = {
        .name = "session/list",
        .family = "exec",
        .needs = NEEDS_READY,
        .decode = session_list_decode,
        .handle = handle_sessions,
};

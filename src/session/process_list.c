/* process_list: handles process/list (docs/PROTOCOL.md). */
#include "base/uri.h"
#include "core/req.h"
#include "proto/control.h"
#include "session/session.h"
#include "session/task.h"

/* Writes null for 0, which means that the value is not known. */
static void write_known(struct jsonw *w, const char *key, int64_t value)
{
        if (value)
                jsonw_member_i64(w, key, value);
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

/* Writes one process. `reader`: the client that asked, when it is to see the process's session; NULL: the session is left out. */
static void write_task(struct jsonw *w, const struct task *t, const struct client *reader)
{
        const struct process *p = t->process;
        bool has_exited = process_has_exited(p);
        jsonw_object(w);
        jsonw_member_string(w, "processId", task_id(t));
        if (reader)
                jsonw_member_string(w, "sessionId", session_id_for(t->session, reader));
        jsonw_key(w, "argv");
        jsonw_raw(w, t->argv_json ? slice_from_str(t->argv_json) : S("[]"));
        write_cwd(w, t->cwd);
        jsonw_member_bool(w, "tty", p->is_tty);
        write_known(w, "pid", p->pid);
        write_known(w, "startedAtMs", p->started_at_ms);
        jsonw_member_bool(w, "running", !has_exited);
        jsonw_member_bool(w, "closed", p->state == PROC_CLOSED);
        task_exit_code_write(w, t);
        write_known(w, "lastOutputAtMs", p->last_output_at_ms);
        jsonw_member_u64(w, "retainedBytes", p->output.bytes);
        jsonw_member_u64(w, "droppedBytes", p->output.dropped_bytes);
        jsonw_member_u64(w, "nextSeq", p->next_seq);
        jsonw_member_str(w, "sandboxType", t->is_sandboxed ? "linuxSeccomp" : "none");
        jsonw_member_bool(w, "sandboxDenied", t->is_denied);
        task_intercept_open_write(w, t);
        if (has_exited)
                task_exit_write(w, t);
        jsonw_object_end(w);
}

/* Returns whether the request asks for this task. `session`: the session that it names; NULL: all that the client may see. */
static bool is_wanted(const struct req *req, const struct process_list *in, const struct session *session,
                      const struct task *t)
{
        bool is_of_it = session ? t->session == session
                                : identity_may_see(&req->client->conn->who, t->session->owner);
        if (!t->is_named || !is_of_it)
                return false;
        return !in->process_id.p || slice_eq(in->process_id, task_id(t));
}

int process_list_handle(struct req *req, const void *params, struct err *err)
{
        const struct process_list *in = params;
        const struct client *c = req->client;
        struct session *session = NULL;
        int r = in->is_server_wide ? req_check_server_scope(req, err)
                                   : session_named(req, in->session_id, &session, err);
        if (r < 0)
                return r;
        struct jsonw w;
        conn_reply_begin(req->client->conn, req->id, 512, &w);
        jsonw_key(&w, "processes");
        jsonw_array(&w);
        const struct task *t;
        list_each (t, &req->server->tasks, server_link)
                if (is_wanted(req, in, session, t))
                        write_task(&w, t, session == c->session ? NULL : c);
        jsonw_array_end(&w);
        conn_reply_end(req->client->conn, req->id, &w);
        return 0;
}

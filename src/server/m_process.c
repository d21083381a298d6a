/* m_process: the methods on processes (docs/PROTOCOL.md). proto/process.c and proto/control.c decode the params, and
 * session/task*.c do the work. */
#include "core/job.h"
#include "proto/control.h"
#include "proto/intercept.h"
#include "proto/process.h"
#include "server/methods.h"
#include "session/task.h"

#include <errno.h>

/* Finds the task that the params name, in the client's own session or in another. Unless it fails, *ret_session is the session,
 * and *ret is NULL when it has no such task. */
static int find(const struct req *req, const void *params, struct session **ret_session, struct task **ret,
                struct err *err)
{
        int r = session_named(req, method_session_of(req->method, params), ret_session, err);
        if (r == 0)
                *ret = task_find(*ret_session, method_key_of(req->method, params));
        return r;
}

/* Finds the task like `find`, but fails when there is none. */
static int find_known(const struct req *req, const void *params, struct task **ret, struct err *err)
{
        struct session *session;
        int r = find(req, params, &session, ret, err);
        if (r == 0 && !*ret)
                r = task_unknown(method_key_of(req->method, params), err);
        return r;
}

static int handle_read(struct req *req, const void *params, struct err *err)
{
        struct task *t;
        int r = find_known(req, params, &t, err);
        return r < 0 ? r : task_read(t, req, params, err);
}

static int handle_write(struct req *req, const void *params, struct err *err)
{
        const struct process_write *in = params;
        struct task *t = task_find(req->client->session, in->process_id);
        if (t)
                return task_write(t, req, in, err);
        req_reply_status(req->client, req->id, "unknownProcess");
        return 0;
}

static int handle_signal(struct req *req, const void *params, struct err *err)
{
        struct session *session;
        struct task *t;
        int r = find(req, params, &session, &t, err);
        if (r < 0)
                return r;
        if (t)
                return task_signal(t, req, params, err);
        req_reply_empty(req->client, req->id);
        return 0;
}

static int handle_terminate(struct req *req, const void *params, struct err *err)
{
        const struct process_terminate *in = params;
        struct session *session;
        struct task *t;
        int r = find(req, params, &session, &t, err);
        if (r < 0)
                return r;
        bool was_running = false;
        if (t)
                was_running = task_terminate(t, in->is_graceful ? in->timeout_ms : 0);
        else if (session->client) /* the start may still be held back there */
                was_running = job_cancel_start(session->client, in->process_id);
        struct jsonw w;
        conn_reply_begin(req->client->conn, req->id, 32, &w);
        jsonw_member_bool(&w, "running", was_running);
        if (in->has_mode)
                jsonw_member_str(&w, "mode", in->is_graceful ? "graceful" : "force");
        conn_reply_end(req->client->conn, req->id, &w);
        return 0;
}

static int handle_close_stdin(struct req *req, const void *params, struct err *err)
{
        const struct process_close_stdin *in = params;
        struct task *t = task_find(req->client->session, in->process_id);
        if (t)
                return task_close_stdin(t, req, err);
        req_reply_status(req->client, req->id, "unknownProcess");
        return 0;
}

static int handle_resize(struct req *req, const void *params, struct err *err)
{
        const struct process_resize *in = params;
        struct task *t = task_find(req->client->session, in->process_id);
        if (!t)
                return task_unknown(in->process_id, err);
        int r = process_resize(t->process, in->rows, in->cols);
        if (r == -ENOTTY)
                return err_set(err, RPC_INVALID_REQUEST, r, "process %.*s is not attached to a PTY",
                               SLICE(in->process_id));
        if (r < 0) {
                err->step = "pty";
                err->os_errno = -r;
                return err_set(err, RPC_INTERNAL, r, "%s (os error %d)", errno_text(r), -r);
        }
        req_reply_empty(req->client, req->id);
        return 0;
}

static int handle_wait(struct req *req, const void *params, struct err *err)
{
        struct task *t;
        int r = find_known(req, params, &t, err);
        return r < 0 ? r : task_wait(t, req, params, err);
}

static int handle_exec_decide(struct req *req, const void *params, struct err *err)
{
        struct task *t;
        int r = find_known(req, params, &t, err);
        return r < 0 ? r : task_exec_decide(t, req, params, err);
}

static int handle_snapshot(struct req *req, const void *params, struct err *err)
{
        static const struct {
                enum stream stream;
                const char *name;
        } streams[] = { { STREAM_STDOUT, "stdout" },
                        { STREAM_STDERR, "stderr" },
                        { STREAM_PTY, "terminal" } };
        const struct process_snapshot *in = params;
        struct task *t;
        int r = find_known(req, params, &t, err);
        if (r < 0)
                return r;
        const struct process *p = t->process;
        uint64_t max = in->has_max_bytes ? MIN(in->max_bytes, p->output.cap_bytes) : p->output.cap_bytes;
        uint64_t omitted[ARRAY_LEN(streams)], total_omitted = 0;

        struct jsonw w;
        conn_reply_begin(req->client->conn, req->id, 1024, &w);
        for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
                _buf_ struct buf bytes = BUF_INIT(SIZE_MAX / 4);
                omitted[i] = output_snapshot(&p->output, streams[i].stream, max, &bytes);
                total_omitted += omitted[i];
                jsonw_key(&w, streams[i].name);
                jsonw_base64(&w, buf_slice(&bytes));
        }
        jsonw_member_bool(&w, "truncated", total_omitted > 0);
        jsonw_key(&w, "omittedBytes");
        jsonw_object(&w);
        for (size_t i = 0; i < ARRAY_LEN(streams); i++)
                jsonw_member_u64(&w, streams[i].name, omitted[i]);
        jsonw_object_end(&w);
        jsonw_member_bool(&w, "running", !process_has_exited(p));
        task_exit_code_write(&w, t);
        jsonw_member_bool(&w, "closed", p->state == PROC_CLOSED);
        jsonw_member_u64(&w, "nextSeq", p->next_seq);
        conn_reply_end(req->client->conn, req->id, &w);
        return 0;
}

#define PROCESS_METHOD(wire_name, type)                                                 \
        .name = wire_name, .family = "exec", .needs = NEEDS_READY, METHOD_PARAMS(type), \
        METHOD_KEY(KEY_PROCESS, type, process_id), .is_exclusive = true
/* A method that may also name a process of another session. */
#define PROCESS_METHOD_ANYWHERE(wire_name, type) PROCESS_METHOD(wire_name, type), METHOD_SESSION(type)

/* clang-format off */
const struct method process_methods[] = {
        { PROCESS_METHOD("process/start", process_start), .handle = process_start_handle, .is_start = true,
          .may_be_job = true },
        { PROCESS_METHOD_ANYWHERE("process/read", process_read), .handle = handle_read },
        { PROCESS_METHOD("process/write", process_write), .handle = handle_write },
        { PROCESS_METHOD_ANYWHERE("process/signal", process_signal), .handle = handle_signal },
        { PROCESS_METHOD_ANYWHERE("process/terminate", process_terminate), .handle = handle_terminate,
          .is_urgent = true },
        { PROCESS_METHOD("process/closeStdin", process_close_stdin), .handle = handle_close_stdin },
        { PROCESS_METHOD("process/resize", process_resize), .handle = handle_resize },
        { PROCESS_METHOD_ANYWHERE("process/wait", process_wait), .handle = handle_wait },
        { PROCESS_METHOD_ANYWHERE("process/snapshot", process_snapshot), .handle = handle_snapshot },
        { PROCESS_METHOD_ANYWHERE("process/execDecide", process_exec_decide), .handle = handle_exec_decide },
        { PROCESS_METHOD_ANYWHERE("process/list", process_list), .handle = process_list_handle },
};
/* clang-format on */
const size_t process_method_count = ARRAY_LEN(process_methods);

/* m_control: process methods that the reference does not have (PROTOCOL.md 14.2). */
#include "proto/control.h"
#include "server/methods.h"
#include "server/task.h"

#include <errno.h>

static int find(struct req *req, struct slice id, struct task **ret, struct err *err)
{
        *ret = task_find(req->conn->session, id);
        return *ret ? 0 : err_set(err, RPC_INVALID_REQUEST, -ESRCH, "unknown process id %.*s", SLICE(id));
}

static int handle_close_stdin(struct req *req, const void *params, struct err *err)
{
        const struct process_close_stdin *in = params;
        struct task *t = task_find(req->conn->session, in->process_id);
        if (t)
                return task_close_stdin(t, req, err);
        struct jsonw w;
        req_reply_begin(req, 64, &w);
        jsonw_object(&w);
        jsonw_member_str(&w, "status", "unknownProcess");
        jsonw_object_end(&w);
        req_reply_end(req, &w);
        return 0;
}

static int handle_resize(struct req *req, const void *params, struct err *err)
{
        const struct process_resize *in = params;
        struct task *t = NULL;
        int r = find(req, in->process_id, &t, err);
        if (r < 0)
                return r;
        r = process_resize(t->process, in->rows, in->cols);
        if (r == -ENOTTY)
                return err_set(err, RPC_INVALID_REQUEST, r, "process %.*s is not attached to a PTY",
                               SLICE(in->process_id));
        if (r < 0) {
                err->step = "pty";
                err->os_errno = -r;
                return err_set(err, RPC_INTERNAL, r, "%s (os error %d)", errno_text(r), -r);
        }
        struct jsonw w;
        req_reply_begin(req, 16, &w);
        jsonw_object(&w);
        jsonw_object_end(&w);
        req_reply_end(req, &w);
        return 0;
}

static int handle_wait(struct req *req, const void *params, struct err *err)
{
        const struct process_wait *in = params;
        struct task *t = NULL;
        int r = find(req, in->process_id, &t, err);
        return r < 0 ? r : task_wait(t, req, in, err);
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
        struct task *t = NULL;
        int r = find(req, in->process_id, &t, err);
        if (r < 0)
                return r;
        const struct process *p = t->process;
        uint64_t max = in->has_max_bytes ? MIN(in->max_bytes, p->output.cap_bytes) : p->output.cap_bytes;
        uint64_t omitted[ARRAY_LEN(streams)], total_omitted = 0;

        struct jsonw w;
        req_reply_begin(req, 1024, &w);
        jsonw_object(&w);
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
        if (process_has_exited(p))
                jsonw_member_i64(&w, "exitCode", p->exit_code);
        else
                jsonw_member_null(&w, "exitCode");
        jsonw_member_bool(&w, "closed", p->state == PROC_CLOSED);
        jsonw_member_u64(&w, "nextSeq", p->next_seq);
        jsonw_object_end(&w);
        req_reply_end(req, &w);
        return 0;
}

#define CONTROL_METHOD(wire_name, params)                                                                \
        .name = wire_name, .family = "exec", .needs = NEEDS_READY, .params_size = sizeof(struct params), \
        .decode = params##_decode

const struct method m_process_close_stdin = { CONTROL_METHOD("process/closeStdin", process_close_stdin),
                                              .handle = handle_close_stdin };
const struct method m_process_resize = { CONTROL_METHOD("process/resize", process_resize),
                                         .handle = handle_resize };
const struct method m_process_wait = { CONTROL_METHOD("process/wait", process_wait), .handle = handle_wait };
const struct method m_process_snapshot = { CONTROL_METHOD("process/snapshot", process_snapshot),
                                           .handle = handle_snapshot };

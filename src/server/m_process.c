/* m_process: the process methods. Decoding is proto/process.c, the work is task*.c; here is only which is which. */
#include "proto/process.h"
#include "server/boxes.h"
#include "server/job.h"
#include "server/methods.h"
#include "server/task.h"

#include <errno.h>

static int unknown_process(struct err *err, struct slice id)
{
        return err_set(err, RPC_INVALID_REQUEST, -ESRCH, "unknown process id %.*s", SLICE(id));
}

static void reply_empty(struct req *req)
{
        struct jsonw w;
        req_reply_begin(req, 16, &w);
        jsonw_object(&w);
        jsonw_object_end(&w);
        req_reply_end(req, &w);
}

/* A sandbox is planned first, on the pool: that looks at files. */
static int plan_begin(struct job *job, UNUSED struct err *err)
{
        const struct process_start *in = job->params;
        job->key = in->process_id;
        job->is_exclusive = true;
        job->own = NULL;
        return 0;
}

static int plan_run(struct job *job, struct jsonw *w, struct err *err)
{
        const struct process_start *in = job->params;
        struct box_made *made = arena_new(&job->arena, struct box_made);
        int r = boxes_make(&job->server->boxes, &job->arena, in, task_environment(&job->arena, in), made,
                           err);
        if (r < 0)
                return r;
        job->own = made;
        jsonw_null(w); /* not what is answered */
        return 0;
}

static int plan_go_on(struct job *job, struct req *req, struct err *err)
{
        return task_start(req, job->params, job->own, err);
}

static void plan_release(struct job *job)
{
        if (job->own)
                boxes_unmake(&job->server->boxes, job->own);
}

static const struct job_class plan_class = {
        .prepare = plan_begin,
        .run = plan_run,
        .go_on = plan_go_on,
        .release = plan_release,
};

static int handle_start(struct req *req, const void *params, struct err *err)
{
        struct process_start *in = (void *)(uintptr_t)params;
        if (!in->has_sandbox || !profile_must_enforce(&in->sandbox.profile))
                return task_start(req, in, NULL, err);
        int r = task_start_check(req, in, err);
        return r < 0 ? r : job_submit(req, &plan_class, in, err);
}

static int handle_read(struct req *req, const void *params, struct err *err)
{
        const struct process_read *in = params;
        struct task *t = task_find(req->conn->session, in->process_id);
        return t ? task_read(t, req, in, err) : unknown_process(err, in->process_id);
}

static int handle_write(struct req *req, const void *params, struct err *err)
{
        const struct process_write *in = params;
        struct task *t = task_find(req->conn->session, in->process_id);
        if (t)
                return task_write(t, req, in, err);
        struct jsonw w;
        req_reply_begin(req, 64, &w);
        jsonw_object(&w);
        jsonw_member_str(&w, "status", "unknownProcess");
        jsonw_object_end(&w);
        req_reply_end(req, &w);
        return 0;
}

static int handle_signal(struct req *req, const void *params, struct err *err)
{
        const struct process_signal *in = params;
        struct task *t = task_find(req->conn->session, in->process_id);
        if (t)
                return task_signal(t, req, in, err);
        reply_empty(req);
        return 0;
}

static int handle_terminate(struct req *req, const void *params, UNUSED struct err *err)
{
        const struct process_terminate *in = params;
        struct task *t = task_find(req->conn->session, in->process_id);
        bool was_running = t ? task_terminate(t, in->is_graceful ? in->timeout_ms : 0)
                             : job_cancel_start(req->conn, in->process_id);
        struct jsonw w;
        req_reply_begin(req, 32, &w);
        jsonw_object(&w);
        jsonw_member_bool(&w, "running", was_running);
        if (in->has_mode)
                jsonw_member_str(&w, "mode", in->is_graceful ? "graceful" : "force");
        jsonw_object_end(&w);
        req_reply_end(req, &w);
        return 0;
}

#define EXEC_METHOD(wire_name, params)                                                                   \
        .name = wire_name, .family = "exec", .needs = NEEDS_READY, .params_size = sizeof(struct params), \
        .decode = params##_decode

const struct method m_process_start = { EXEC_METHOD("process/start", process_start), .handle = handle_start,
                                        .may_be_job = true };
const struct method m_process_read = { EXEC_METHOD("process/read", process_read), .handle = handle_read };
const struct method m_process_write = { EXEC_METHOD("process/write", process_write), .handle = handle_write };
const struct method m_process_signal = { EXEC_METHOD("process/signal", process_signal),
                                         .handle = handle_signal };
const struct method m_process_terminate = { EXEC_METHOD("process/terminate", process_terminate),
                                            .handle = handle_terminate };

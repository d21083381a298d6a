/* start_plan: prepares a process/start: plans its sandbox, takes its command out of a codex-linux-sandbox, waits for a shell snapshot. */
#include "base/log.h"
#include "confine/confine.h"
#include "core/job.h"
#include "core/server.h"
#include "policy/env.h"
#include "proto/linux_sandbox.h"
#include "proto/process.h"
#include "session/first_program.h"
#include "session/shell_snapshot.h"
#include "session/task_internal.h"

#include <errno.h>

/* A start that cannot begin at once and becomes a job. Its sandbox is planned, and its codex-linux-sandbox is searched for, on a thread,
 * because both look at files. Or the start waits for a shell snapshot, which it may have to capture first. */
struct preparation {
        struct guarded sandbox;
        bool has_sandbox;
        struct interception interception;
        struct process_start *capture;   /* the capture to plan and start first; NULL: there is none */
        struct shell_snapshot *snapshot; /* what `capture` captures; NULL: the capture has begun or ended */
};

static bool must_plan(const struct process_start *in)
{
        return in->has_sandbox && profile_must_enforce(&in->sandbox.profile);
}

/* Returns whether the command is codex-linux-sandbox of the client's machine, with the real command in its arguments: older clients ask
 * for a sandbox so. Clients that send a sandbox with the request do not. */
static bool is_linux_sandbox(const struct process_start *in)
{
        return !in->has_sandbox && linux_sandbox_is_named(in->argv[0]);
}

/* Returns the snapshot for which `in` must wait: it is being captured, or must be captured first. Otherwise returns NULL, and
 * makes `in` restore its snapshot if that is ready. */
static struct shell_snapshot *use_snapshot(struct session *session, struct arena *a, struct process_start *in)
{
        bool applies = session && shell_snapshot_applies(in);
        struct shell_snapshot *s = applies ? shell_snapshot_find(session, in) : NULL;
        enum shell_snapshot_state state = s ? shell_snapshot_state(s) : SHELL_SNAPSHOT_FAILED;
        if (state == SHELL_SNAPSHOT_NEW || state == SHELL_SNAPSHOT_CAPTURING)
                return s;
        in->has_snapshot = false;
        if (state == SHELL_SNAPSHOT_READY && !shell_snapshot_apply(s, a, in))
                log_debug("shell snapshot is too large for this start", "session=%.13s", session->id);
        return NULL;
}

static int plan_begin(struct job *job, UNUSED struct err *err)
{
        struct process_start *in = job->params;
        struct preparation *p = job->own;
        if (!p) {
                job->own = p = arena_new(&job->arena, struct preparation);
                p->sandbox = GUARDED_NONE;
                p->interception = INTERCEPTION_NONE;
        }
        struct shell_snapshot *s =
                in->has_snapshot ? use_snapshot(job->client->session, &job->arena, in) : NULL;
        if (s && shell_snapshot_state(s) == SHELL_SNAPSHOT_NEW) {
                _arena_ struct arena arena = ARENA_INIT;
                p->capture = arena_new(&job->arena, struct process_start);
                shell_snapshot_begin(s, &job->arena, in, (const char *const *)task_environment(&arena, in),
                                     &p->snapshot, p->capture);
        }
        return 0;
}

static int plan_run(struct job *job, struct jsonw *w, struct err *err)
{
        struct process_start *in = job->params;
        struct preparation *p = job->own;
        jsonw_null(w); /* `run` must write a value; it is not sent */
        if (in->has_snapshot && !p->capture)
                return 0; /* another start is capturing the snapshot */
        struct process_start *what = p->capture ? p->capture : in;
        _arena_ struct arena arena = ARENA_INIT; /* freed here; the arena of the job is kept longer */
        bool was_linux_sandbox = is_linux_sandbox(what);
        const char **env = task_environment(was_linux_sandbox ? &job->arena : &arena, what);
        int r = was_linux_sandbox ? task_replace_linux_sandbox(&job->arena, what, env, err) : 0;
        if (r == 0 && what->has_intercept)
                r = interception_make(&job->arena, what, env, &p->interception, err);
        if (r == 0 && p->interception.action == INTERCEPT_ESCALATE)
                what->has_sandbox = false;
        /* While a client is asked, files may change: then the sandbox is planned after the decision. */
        if (r < 0 || !must_plan(what) || p->interception.action == INTERCEPT_ASK)
                return r;
        r = task_confine(job->server, &arena, what, env, &p->sandbox, err);
        p->has_sandbox = r == 0;
        return r;
}

static void forget_sandbox(struct job *job, struct preparation *p)
{
        if (p->has_sandbox)
                confine_unmake(&job->server->confine, &p->sandbox);
        p->has_sandbox = false;
        p->sandbox = GUARDED_NONE;
}

/* Starts the capture that was planned. When the session has no room for another process, this start uses no snapshot, and the next
 * start captures it. */
static void start_capture(struct job *job, struct session *session)
{
        struct process_start *in = job->params;
        struct preparation *p = job->own;
        struct shell_snapshot *s = p->snapshot; /* NULL: the capture has run out of time */
        struct err err = ERR_INIT;
        int r = s ? task_capture(session, p->capture, &p->sandbox, &shell_snapshot_events, s, &err) : 0;
        if (r == -EAGAIN) {
                in->has_snapshot = false;
                shell_snapshot_settle(s, SHELL_SNAPSHOT_NEW);
        } else if (r < 0) {
                shell_snapshot_settle(s, SHELL_SNAPSHOT_FAILED);
        }
        p->capture = NULL;
        forget_sandbox(job, p);
}

static bool plan_wait(struct job *job)
{
        struct process_start *in = job->params;
        struct preparation *p = job->own;
        struct session *session = job->client->session;
        if (!in->has_snapshot || !session)
                return false;
        if (p->capture)
                start_capture(job, session);
        struct shell_snapshot *s = in->has_snapshot ? shell_snapshot_find(session, in) : NULL;
        if (!s || shell_snapshot_state(s) != SHELL_SNAPSHOT_CAPTURING)
                job->is_waiting = false; /* the job begins again at once */
        return true;
}

static int plan_go_on(struct job *job, struct req *req, struct err *err)
{
        struct preparation *p = job->own;
        struct process_start *in = job->params;
        int r = task_start(req, in, p->has_sandbox ? &p->sandbox : NULL,
                           in->has_intercept ? &p->interception : NULL, err);
        if (r == 0)
                job->own = NULL; /* task_start has taken the sandbox, and the arena that holds `p` */
        return r;
}

static void plan_release(struct job *job)
{
        struct preparation *p = job->own;
        if (!p)
                return;
        if (p->snapshot) /* the plan failed, or the start was cancelled */
                shell_snapshot_settle(p->snapshot, SHELL_SNAPSHOT_NEW);
        interception_release(&p->interception);
        forget_sandbox(job, p);
}

static const struct job_class plan_class = {
        .begin = plan_begin,
        .run = plan_run,
        .wait = plan_wait,
        .go_on = plan_go_on,
        .release = plan_release,
};

int process_start_handle(struct req *req, const void *params, struct err *err)
{
        struct process_start *in = (void *)(uintptr_t)params;
        if (in->has_intercept)
                in->has_snapshot = false; /* the shell of a capture would run without anybody's decision */
        bool must_wait = use_snapshot(req->client->session, req->arena, in) != NULL;
        if (!must_plan(in) && !is_linux_sandbox(in) && !must_wait && !in->has_intercept)
                return task_start(req, in, NULL, NULL, err);
        int r = task_start_check(req, in, err);
        return r < 0 ? r : job_submit(req, &plan_class, in, err);
}

/* task_again: plans a start again when changes on the disk have overtaken its sandbox plan.
 *
 * Files that the plan has seen may be replaced or removed before the sandbox is built. Then the start fails before the command
 * has run. The task and the requests that wait for it stay. The task gets a new process that has not begun, a thread plans
 * again, and the start is tried again, up to LIMIT_START_AGAIN times. What is left of the failed process ends by itself.
 *
 * For this the memory of the request is kept until its answer. When the connection ends before the new plan is made, the start
 * is given up, as it is during the first plan.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/server.h"
#include "proto/process.h"
#include "session/task_internal.h"

#include <errno.h>

struct task_again {
        struct work work;
        struct server *server;
        struct task *task; /* NULL: the start was given up while a thread was planning */
        struct process_start *in;
        struct arena arena; /* `in` points into this arena and into `text` */
        struct buf text;
        unsigned tries;
        bool is_in_pool;
        struct guarded made;
        int result; /* result of the plan; 0: `made` is the sandbox; negative: `err` is set */
        struct err err;
};

uint64_t task_again_bytes(const struct req *req)
{
        return sizeof(struct task_again) + req->arena->bytes + req->text.n;
}

void task_again_keep(struct task *t, struct req *req, struct process_start *in)
{
        struct task_again *a = mem_new(struct task_again);
        a->server = req->server;
        a->task = t;
        a->in = in;
        a->arena = *req->arena;
        *req->arena = ARENA_INIT;
        a->text = req->text;
        buf_init(&req->text, 0);
        a->made = GUARDED_NONE;
        t->again = a;
}

static void again_free(struct task_again *a)
{
        confine_unmake(&a->server->confine, &a->made);
        buffer_pool_put(&a->server->conns.buffer_pool, &a->text);
        arena_release(&a->arena);
        free(a);
}

void task_again_drop(struct task *t)
{
        struct task_again *a = TAKE(t->again);
        if (!a)
                return;
        a->task = NULL;
        if (!a->is_in_pool)
                again_free(a);
}

bool task_is_planned_again(const struct task *t)
{
        return t->again && t->again->is_in_pool;
}

/* ---- what is left of the failed start ---- */

struct leftover {
        struct list link; /* server::leftovers */
        struct deferred reap;
        struct server *server;
        struct process *process;
        struct guarded sandbox; /* the placeholders of the start are removed when the process tree is gone */
};

static void leftover_free(struct deferred *d)
{
        struct leftover *l = container_of(d, struct leftover, reap);
        list_remove(&l->link);
        process_free(l->process);
        free(l);
}

static void leftover_gone(struct process *p)
{
        struct leftover *l = p->owner;
        confine_unmake(&l->server->confine, &l->sandbox);
        loop_defer(&l->server->loop, &l->reap);
        server_process_gone(l->server);
}

static void leftover_signalled(UNUSED struct process *p, UNUSED int os_errno)
{
}

/* A process whose start has failed has no other events. */
static const struct process_events leftover_events = { .signalled = leftover_signalled,
                                                       .gone = leftover_gone };

static void leave_behind(struct task *t)
{
        struct server *s = t->session->server;
        struct leftover *l = mem_new(struct leftover);
        list_append(&s->leftovers, &l->link);
        deferred_init(&l->reap, leftover_free);
        l->server = s;
        l->process = t->process;
        confine_let_go(&s->confine, &t->sandbox);
        t->sandbox.image_fd = fd_close(t->sandbox.image_fd);
        l->sandbox = t->sandbox;
        t->sandbox = GUARDED_NONE;
        t->is_break_logged = false;
        l->process->owner = l;
        l->process->events = &leftover_events;
}

void task_again_release(struct server *s)
{
        struct leftover *l;
        list_each (l, &s->leftovers, link) {
                confine_unmake(&s->confine, &l->sandbox);
                loop_defer(&s->loop, &l->reap);
        }
}

/* ---- planning again ---- */

static void plan(struct work *w)
{
        struct task_again *a = container_of(w, struct task_again, work);
        _arena_ struct arena arena = ARENA_INIT;
        a->err = ERR_INIT;
        a->result = task_confine(a->server, &arena, a->in,
                                 (const char *const *)task_environment(&arena, a->in), &a->made, &a->err);
}

static void planned(struct work *w)
{
        struct task_again *a = container_of(w, struct task_again, work);
        struct task *t = a->task;
        a->is_in_pool = false;
        if (!t) {
                again_free(a);
                return;
        }
        int r = a->result;
        struct err err = a->err;
        if (w->is_cancelled || a->server->is_draining)
                r = err_set(&err, RPC_DRAINING, -ESHUTDOWN, "the server is shutting down");
        else if (t->session->is_ended || t->cause != END_BY_ITSELF)
                r = err_set(&err, RPC_INVALID_REQUEST, -ECANCELED, "process %.*s start was cancelled",
                            SLICE(task_id(t)));
        if (r == 0) {
                t->sandbox = a->made;
                a->made = GUARDED_NONE;
                r = task_start_begin(t, a->in, &err);
        }
        if (r < 0)
                task_start_refused(t, &err);
}

static void plan_on_thread(struct task_again *a)
{
        a->work = (struct work){ .run = plan, .done = planned };
        a->is_in_pool = true;
        pool_submit(a->server->pool, &a->work);
}

bool task_is_overtaken(const struct task *t, const char *step, int os_errno)
{
        if (t->cause == END_SANDBOX)
                return true;
        return t->cause == END_BY_ITSELF && step && t->sandbox.image_fd >= 0 &&
               prepare_is_overtaken(t->sandbox.image_fd, step, os_errno);
}

bool task_start_again(struct task *t, const char *step, int os_errno)
{
        struct task_again *a = t->again;
        if (!a || t->is_cancelled || a->tries == LIMIT_START_AGAIN || a->server->is_draining ||
            !task_is_overtaken(t, step, os_errno))
                return false;
        a->tries++;
        log_info("start is planned again", "session=%.13s proc=%s try=%u step=%s", t->session->id,
                 log_quote(task_id(t)), a->tries, step ? step : "");
        const struct process *failed = t->process;
        leave_behind(t);
        t->cause = END_BY_ITSELF;
        t->process = process_new(&a->server->procs, &task_process_events, t);
        t->process->is_tty = failed->is_tty;
        t->process->rows = failed->rows;
        t->process->cols = failed->cols;
        plan_on_thread(a);
        return true;
}

void task_start_decided(struct task *t, const struct err *denied)
{
        struct task_again *a = t->again;
        struct err err = ERR_INIT;
        if (denied) {
                task_start_refused(t, denied);
                return;
        }
        if (task_intercept_is_escalated(t))
                a->in->has_sandbox = t->is_sandboxed = t->is_offline = false;
        if (a->in->has_sandbox && profile_must_enforce(&a->in->sandbox.profile))
                plan_on_thread(a);
        else if (task_start_begin(t, a->in, &err) < 0)
                task_start_refused(t, &err);
}

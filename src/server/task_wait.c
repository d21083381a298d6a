/* task_wait: process/wait (PROTOCOL.md 14.2): until the exit, or the close, or the caller's patience ends. */
#include "base/clock.h"
#include "base/mem.h"
#include "proto/control.h"
#include "server/exit_record.h"
#include "server/task_internal.h"

#include <errno.h>

struct waiter {
        struct parked parked;
        struct list link; /* task::waits */
        struct task *task;
        struct timer *timer;
        uint64_t deadline_ms;
        struct process_wait ask; /* its process_id is not kept */
        bool is_draining;        /* the exit was seen; the timer now counts drainMs */
};

static bool is_done(const struct process *p, const struct process_wait *ask)
{
        return p->state == PROC_CLOSED || (ask->until_exited && process_has_exited(p));
}

static void answer(struct conn *c, const struct rpc_id *id, const struct task *t, bool timed_out)
{
        const struct process *p = t->process;
        struct jsonw w;
        conn_reply_begin(c, id, 128 + EXIT_RECORD_BYTES, &w);
        jsonw_object(&w);
        jsonw_member_bool(&w, "exited", process_has_exited(p));
        if (process_has_exited(p))
                jsonw_member_i64(&w, "exitCode", p->exit_code);
        else
                jsonw_member_null(&w, "exitCode");
        jsonw_member_bool(&w, "closed", p->state == PROC_CLOSED);
        jsonw_member_u64(&w, "nextSeq", p->next_seq);
        jsonw_member_bool(&w, "sandboxDenied", t->is_denied);
        jsonw_member_bool(&w, "timedOut", timed_out);
        if (process_has_exited(p))
                exit_record_write(&w, t);
        jsonw_object_end(&w);
        conn_reply_end(c, id, &w);
}

static void waiter_forget(struct parked *parked)
{
        struct waiter *w = container_of(parked, struct waiter, parked);
        list_remove(&w->link);
        timer_free(w->timer);
        free(w);
}

static void waiter_answer(struct waiter *w, bool timed_out)
{
        answer(w->parked.conn, &w->parked.id, w->task, timed_out);
        parked_done(&w->parked);
}

static void on_deadline(void *arg)
{
        struct waiter *w = arg;
        if (w->task->process->state != PROC_STARTING)
                waiter_answer(w, !is_done(w->task->process, &w->ask));
        else
                w->deadline_ms = 0; /* answered as soon as the start is decided */
}

/* After the exit only drainMs may be waited for the close, when the caller said so. */
static void begin_draining(struct waiter *w)
{
        const struct process *p = w->task->process;
        uint64_t now_ms = clock_mono_ms();
        if (w->is_draining || !w->ask.has_drain_ms || !process_has_exited(p))
                return;
        w->is_draining = true;
        uint64_t until_ms = MIN(p->exited_mono_ms + w->ask.drain_ms, w->deadline_ms);
        timer_start(w->timer, MAX(until_ms, now_ms) - now_ms);
}

int task_wait(struct task *t, struct req *req, const struct process_wait *in, struct err *err)
{
        bool is_over = in->wait_ms == 0 && t->process->state != PROC_STARTING;
        if (is_done(t->process, in) || is_over) {
                answer(req->conn, req->id, t, !is_done(t->process, in));
                return 0;
        }
        struct waiter *w = mem_new(struct waiter);
        int e = parked_init(&w->parked, req, sizeof(*w), waiter_forget, err);
        if (e < 0) {
                free(w);
                return e;
        }
        w->task = t;
        w->ask = *in;
        w->ask.process_id = S("");
        w->deadline_ms = clock_mono_ms() + in->wait_ms;
        w->timer = timer_new(&req->server->loop, on_deadline, w);
        timer_start(w->timer, in->wait_ms);
        list_append(&t->waits, &w->link);
        begin_draining(w);
        return 0;
}

void task_waits_wake(struct task *t)
{
        struct waiter *w;
        list_each (w, &t->waits, link) {
                if (is_done(t->process, &w->ask) || w->deadline_ms == 0)
                        waiter_answer(w, !is_done(t->process, &w->ask));
                else
                        begin_draining(w);
        }
}

void task_waits_fail(struct task *t)
{
        struct err err = ERR_INIT;
        err_set(&err, RPC_INVALID_REQUEST, -ESRCH, "unknown process id %.*s", SLICE(task_id(t)));
        struct waiter *w;
        while ((w = list_first(&t->waits, struct waiter, link)))
                parked_fail(&w->parked, &err);
}

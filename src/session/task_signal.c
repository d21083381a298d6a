/* task_signal: process/signal (docs/PROTOCOL.md), and the signals at the end of a session.
 *
 * The keeper of the process sends the signal and reports the result. Results come in the order of the signals, so the requests
 * wait in a queue.
 */
#include "base/mem.h"
#include "proto/process.h"
#include "session/task_internal.h"

#include <errno.h>

struct signal_wait {
        struct parked parked; /* parked.client is NULL when no request waits for the result */
        struct list link;     /* task::signals */
        int signo;
        enum spawn_scope scope;
};

/* The parked request calls this when it is dropped or answered. It frees nothing: the result of the keeper may still come, so the
 * struct stays in the queue until task_signal_answered frees it. */
static void forget_nothing(UNUSED struct parked *parked)
{
}

static void send_signal(struct task *t, struct signal_wait *w, int signo, enum spawn_scope scope)
{
        w->signo = signo;
        w->scope = scope;
        list_append(&t->signals, &w->link);
        if (process_has_begun(t->process))
                process_signal(t->process, signo, scope);
}

void task_signals_send_waiting(struct task *t)
{
        const struct signal_wait *w;
        list_each (w, &t->signals, link)
                process_signal(t->process, w->signo, w->scope);
}

int task_signal(struct task *t, struct req *req, const struct process_signal *in, struct err *err)
{
        static const enum spawn_scope scopes[] = {
                [SCOPE_GROUP] = SPAWN_GROUP, [SCOPE_PROCESS] = SPAWN_PROCESS, [SCOPE_TREE] = SPAWN_TREE
        };
        bool is_over = in->scope == SCOPE_TREE ? t->process->is_gone : process_has_exited(t->process);
        if (is_over || t->is_cancelled) {
                req_reply_empty(req->client, req->id);
                return 0;
        }
        struct signal_wait *wait = mem_new(struct signal_wait);
        int e = parked_init(&wait->parked, req, sizeof(*wait), forget_nothing, err);
        if (e < 0) {
                free(wait);
                return e;
        }
        send_signal(t, wait, in->signo, scopes[in->scope]);
        return 0;
}

void task_signal_silently(struct task *t, int signo, enum spawn_scope scope)
{
        send_signal(t, mem_new(struct signal_wait), signo, scope);
}

void task_signal_answered(struct task *t, int os_errno)
{
        struct signal_wait *w = list_first(&t->signals, struct signal_wait, link);
        if (!w)
                return;
        list_remove(&w->link);
        if (w->parked.client && os_errno) {
                struct err err = ERR_INIT;
                err_set(&err, RPC_INTERNAL, -os_errno, "failed to signal process: %s (os error %d)",
                        errno_text(os_errno), os_errno);
                err.step = "signal";
                err.os_errno = os_errno;
                parked_fail(&w->parked, &err);
        } else if (w->parked.client) {
                req_reply_empty(w->parked.client, &w->parked.id);
                parked_done(&w->parked);
        }
        free(w);
}

void task_signals_answer_all(struct task *t)
{
        while (!list_is_empty(&t->signals))
                task_signal_answered(t, 0);
}

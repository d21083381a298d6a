/* task_signal: process/signal (PROTOCOL.md 6.6), and the signals of a session's end.
 *
 * The keeper that owns the process sends the signal and says how it went; answers come in the order of asking, so a
 * queue of who asked is all that is needed.
 */
#include "base/mem.h"
#include "proto/process.h"
#include "server/task_internal.h"

#include <errno.h>

struct signal_wait {
        struct parked parked; /* conn NULL: nobody waits (any more) */
        struct list link;     /* task::signals */
};

/* The asker is gone; the keeper's answer still comes, so the place in the queue stays. */
static void asker_left(UNUSED struct parked *parked)
{
}

static void send_signal(struct task *t, struct signal_wait *w, int signo, enum spawn_scope scope)
{
        list_append(&t->signals, &w->link);
        process_signal(t->process, signo, scope);
}

int task_signal(struct task *t, struct req *req, const struct process_signal *in, struct err *err)
{
        static const enum spawn_scope scopes[] = {
                [SCOPE_GROUP] = SPAWN_GROUP, [SCOPE_PROCESS] = SPAWN_PROCESS, [SCOPE_TREE] = SPAWN_TREE
        };
        bool is_over = in->scope == SCOPE_TREE ? t->process->is_gone : process_has_exited(t->process);
        if (is_over || t->is_cancelled) {
                struct jsonw w;
                req_reply_begin(req, 16, &w);
                jsonw_object(&w);
                jsonw_object_end(&w);
                req_reply_end(req, &w);
                return 0;
        }
        struct signal_wait *wait = mem_new(struct signal_wait);
        int e = parked_init(&wait->parked, req, sizeof(*wait), asker_left, err);
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
        if (w->parked.conn && os_errno) {
                struct err err = ERR_INIT;
                err_set(&err, RPC_INTERNAL, -os_errno, "failed to signal process: %s (os error %d)",
                        errno_text(os_errno), os_errno);
                err.step = "signal";
                err.os_errno = os_errno;
                parked_fail(&w->parked, &err);
        } else if (w->parked.conn) {
                struct jsonw json;
                parked_reply_begin(&w->parked, 16, &json);
                jsonw_object(&json);
                jsonw_object_end(&json);
                parked_reply_end(&w->parked, &json);
        }
        free(w);
}

void task_signals_answer_all(struct task *t)
{
        while (!list_is_empty(&t->signals))
                task_signal_answered(t, 0);
}

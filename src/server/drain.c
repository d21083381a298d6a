/* drain: ends all processes, then tells all clients, then stops the loop. */
#include "server/drain.h"

#include "base/log.h"
#include "session/task.h"

/* Called when all processes have ended: closes all connections. The loop stops when they are gone, or after LIMIT_FAREWELL_MS. */
static void finish(struct server *s)
{
        s->is_finishing = true;
        struct conn *c;
        list_each (c, &s->conns.all, link)
                conn_close(c, WS_CLOSE_GOING_AWAY);
        timer_start(s->drain_timer, LIMIT_FAREWELL_MS);
        server_conn_gone(s);
}

static void on_drain_timer(void *arg)
{
        struct server *s = arg;
        if (s->is_finishing) {
                loop_stop(&s->loop);
                return;
        }
        if (s->is_killing || s->procs.used == 0) {
                finish(s); /* processes that SIGKILL has not ended yet are no longer waited for */
                return;
        }
        s->is_killing = true;
        struct task *t;
        list_each (t, &s->tasks, server_link)
                task_end_now(t, END_SHUTDOWN);
        timer_start(s->drain_timer, LIMIT_SHUTDOWN_KILL_MS);
}

void server_drain(struct server *s)
{
        if (s->is_draining) {
                if (!s->is_killing && !s->is_finishing)
                        on_drain_timer(s); /* a second call ends the grace period */
                return;
        }
        s->is_draining = true;
        s->conns.is_draining = true;
        uint64_t grace_ms = s->config->shutdown_grace_period_ms;
        log_info("shutting down", "processes=%u", s->procs.used);
        s->drain_timer = timer_new(&s->loop, on_drain_timer, s);
        if (s->procs.used == 0 || grace_ms == 0) {
                timer_start(s->drain_timer, 0);
                return;
        }
        struct task *t;
        list_each (t, &s->tasks, server_link)
                if (!t->session->is_ended) /* tasks of an ended session have their grace period already */
                        task_end_gently(t, END_SHUTDOWN);
        timer_start(s->drain_timer, grace_ms);
}

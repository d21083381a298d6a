#include "server/retention.h"

static enum retention_class class_of(const struct task *t)
{
        if (t->process->state == PROC_CLOSED)
                return RETAIN_CLOSED;
        return t->session->conn ? RETAIN_ATTACHED : RETAIN_DETACHED;
}

static void enter(struct task *t)
{
        list_append(&t->session->server->retained[class_of(t)], &t->retained_link);
}

void task_reclass(struct task *t)
{
        if (!list_is_linked(&t->retained_link))
                return;
        list_remove(&t->retained_link);
        enter(t);
}

void retention_leave(struct task *t)
{
        list_remove(&t->retained_link);
}

static bool drop_one(struct server *s)
{
        for (size_t i = 0; i < ARRAY_LEN(s->retained); i++) {
                struct task *t;
                list_each (t, &s->retained[i], retained_link) {
                        if (output_drop_oldest(&t->process->output) || output_drop_heads(&t->process->output))
                                return true;
                        retention_leave(t); /* has nothing; enters again when it grows */
                }
        }
        return false;
}

void retention_grew(struct task *t)
{
        struct server *s = t->session->server;
        if (!list_is_linked(&t->retained_link))
                enter(t);
        while (s->procs.retained_total > s->config->retained_output_bytes_total && drop_one(s))
                ;
}

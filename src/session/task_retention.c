/* task_retention: bounds the retained output of all processes together, and chooses whose output is dropped first.
 *
 * The output of closed processes is dropped first, then that of processes of detached sessions, then that of processes of attached
 * sessions; within each class, that of the process that has been in the class longest.
 */
#include "session/task_internal.h"

/* The index of server::retained. */
enum retention_class { RETAIN_CLOSED, RETAIN_DETACHED, RETAIN_ATTACHED };

static enum retention_class class_of(const struct task *t)
{
        if (t->process->state == PROC_CLOSED)
                return RETAIN_CLOSED;
        return t->session->client ? RETAIN_ATTACHED : RETAIN_DETACHED;
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

static bool drop_one(struct server *s)
{
        for (size_t i = 0; i < ARRAY_LEN(s->retained); i++) {
                struct task *t;
                list_each (t, &s->retained[i], retained_link) {
                        if (output_drop_oldest(&t->process->output) || output_drop_heads(&t->process->output))
                                return true;
                        list_remove(&t->retained_link); /* without output; linked again when output comes */
                }
        }
        return false;
}

void task_retention_grew(struct task *t)
{
        struct server *s = t->session->server;
        if (!list_is_linked(&t->retained_link))
                enter(t);
        while (s->procs.retained_total > s->config->retained_output_bytes_total && drop_one(s))
                ;
}

/* server: goes on with ending the server when a process or a connection is gone. */
#include "core/server.h"

void server_process_gone(struct server *s)
{
        if (s->is_draining && !s->is_finishing && s->procs.used == 0)
                timer_start(s->drain_timer, 0);
}

void server_conn_gone(struct server *s)
{
        if (s->is_finishing && list_is_empty(&s->conns.all))
                loop_stop(&s->loop);
}

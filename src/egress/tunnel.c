/* tunnel: bytes pass both ways, whatever they mean, until both sides have ended. */
#include "egress/connection_internal.h"

#include <sys/socket.h>

void tunnel_start(struct conn *c)
{
        exchange_release(c);
        c->stage = STAGE_TUNNEL;
        timer_stop(c->timer);
        flow_give(&c->up, buf_slice(&c->in));
        flow_give(&c->down, buf_slice(&c->reply_in));
        buf_release(&c->in);
        buf_release(&c->reply_in);
        c->up.left = c->down.left = FLOW_ENDLESS;
        tunnel_run(c, flow_is_pending(&c->up), flow_is_pending(&c->down));
}

/* Passes on the end of one side when all before it has gone. When both have ended the sockets are closed instead. */
static void pass_end(struct flow *f, const struct flow *other)
{
        if (!f->has_ended || f->left == 0 || flow_is_pending(f))
                return;
        f->left = 0;
        if (other->left > 0)
                (void)shutdown(f->to, SHUT_WR);
}

void tunnel_run(struct conn *c, bool runs_up, bool runs_down)
{
        if ((runs_up && flow_run(&c->up) < 0) || (runs_down && flow_run(&c->down) < 0)) {
                conn_kill(c);
                return;
        }
        pass_end(&c->up, &c->down);
        pass_end(&c->down, &c->up);
        if (c->up.left == 0 && c->down.left == 0)
                conn_kill(c);
        else
                conn_settle(c);
}

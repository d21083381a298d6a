#include "server/assembly.h"

#include "base/log.h"

static bool try_grant(struct server *s, struct conn *c, uint64_t bytes)
{
        uint64_t more = bytes - c->assembly_bytes;
        /* One message always fits, also when the operator allows messages larger than the whole. */
        if (s->assembly_used > 0 && s->assembly_used + more > LIMIT_ASSEMBLY_TOTAL_BYTES)
                return false;
        s->assembly_used += more;
        c->assembly_bytes = bytes;
        c->assembly_seen = 0;
        list_remove(&c->assembly_link);
        list_append(&s->assembly_holding, &c->assembly_link);
        return true;
}

/* While somebody waits, a holder must bring LIMIT_ASSEMBLY_MIN_BYTES in every window. */
static void on_window(void *arg)
{
        struct server *s = arg;
        if (list_is_empty(&s->assembly_waiting))
                return;
        struct conn *c;
        list_each (c, &s->assembly_holding, assembly_link) {
                if (c->assembly_seen < LIMIT_ASSEMBLY_MIN_BYTES) {
                        log_warn("large message dawdles", "peer=%s", c->peer);
                        conn_close(c, WS_CLOSE_TRY_LATER);
                } else {
                        c->assembly_seen = 0;
                }
        }
        timer_start(s->assembly_timer, LIMIT_ASSEMBLY_WINDOW_MS);
}

bool assembly_claim(struct conn *c, uint64_t bytes)
{
        struct server *s = c->server;
        if (c->assembly_bytes >= bytes)
                return true;
        if (list_is_empty(&s->assembly_waiting) && try_grant(s, c, bytes))
                return true;
        list_remove(&c->assembly_link);
        list_append(&s->assembly_waiting, &c->assembly_link);
        c->assembly_wanted = bytes;
        if (!s->assembly_timer)
                s->assembly_timer = timer_new(&s->loop, on_window, s);
        struct conn *holder;
        list_each (holder, &s->assembly_holding, assembly_link) {
                holder->assembly_seen = 0;
        }
        timer_start(s->assembly_timer, LIMIT_ASSEMBLY_WINDOW_MS);
        return false;
}

void assembly_release(struct conn *c)
{
        struct server *s = c->server;
        list_remove(&c->assembly_link);
        s->assembly_used -= c->assembly_bytes;
        c->assembly_bytes = 0;

        struct conn *next;
        while ((next = list_first(&s->assembly_waiting, struct conn, assembly_link)) &&
               try_grant(s, next, next->assembly_wanted))
                conn_unblock(next, BLOCK_ASSEMBLY);
}

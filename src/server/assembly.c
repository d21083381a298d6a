#include "server/assembly.h"

#include "base/log.h"
#include "base/mem.h"

/* Growing holders must not wait for each other for ever: one at a time may go over the total, up to its message's
 * limit; when it has finished, the next one may. */
static bool try_grant(struct server *s, struct conn *c, uint64_t bytes)
{
        uint64_t more = bytes - c->assembly_bytes;
        if (s->assembly_used + more > LIMIT_ASSEMBLY_TOTAL_BYTES) {
                bool may_exceed = c->assembly_bytes > 0 || s->assembly_used == 0;
                if (!may_exceed || (s->assembly_exceeding && s->assembly_exceeding != c))
                        return false;
                s->assembly_exceeding = c;
        }
        s->assembly_used += more;
        c->assembly_bytes = bytes;
        list_remove(&c->assembly_link);
        list_append(&s->assembly_holding, &c->assembly_link);
        return true;
}

/* While somebody waits, who holds a share must bring LIMIT_ASSEMBLY_MIN_BYTES in every window that it was in from the
 * beginning. */
static void on_window(void *arg)
{
        struct server *s = arg;
        uint64_t window = s->assembly_window++;
        if (list_is_empty(&s->assembly_waiting))
                return;
        struct conn *c;
        list_each (c, &s->conns, link) {
                bool is_reading = list_is_linked(&c->assembly_link) && !(c->blocks & BLOCK_ASSEMBLY);
                if (is_reading && c->assembly_since < window && c->assembly_seen < LIMIT_ASSEMBLY_MIN_BYTES) {
                        log_warn("large message dawdles", "peer=%s", c->peer);
                        conn_close(c, WS_CLOSE_TRY_LATER);
                }
                c->assembly_seen = 0;
        }
        timer_start(s->assembly_timer, LIMIT_ASSEMBLY_WINDOW_MS);
}

static void wait_for_share(struct conn *c, uint64_t bytes)
{
        struct server *s = c->server;
        if (list_is_empty(&s->assembly_waiting)) {
                if (!s->assembly_timer)
                        s->assembly_timer = timer_new(&s->loop, on_window, s);
                s->assembly_window++;
                struct conn *holder;
                list_each (holder, &s->assembly_holding, assembly_link) {
                        holder->assembly_seen = 0;
                }
                timer_start(s->assembly_timer, LIMIT_ASSEMBLY_WINDOW_MS);
        }
        list_remove(&c->assembly_link);
        list_append(&s->assembly_waiting, &c->assembly_link);
        c->assembly_wanted = bytes;
}

bool assembly_claim(struct conn *c, uint64_t bytes)
{
        struct server *s = c->server;
        if (c->assembly_bytes >= bytes)
                return true;
        if (c->assembly_bytes == 0) {
                c->assembly_seen = 0;
                c->assembly_since = s->assembly_window;
        }
        /* Who grows goes before who begins: only finished messages give memory back. */
        bool may_ask = list_is_empty(&s->assembly_waiting) || c->assembly_bytes > 0;
        if (may_ask && try_grant(s, c, bytes))
                return true;
        wait_for_share(c, bytes);
        return false;
}

bool assembly_try(struct conn *c, uint64_t bytes)
{
        struct server *s = c->server;
        must(c->assembly_bytes == 0);
        if (!list_is_empty(&s->assembly_waiting) || bytes > LIMIT_ASSEMBLY_TOTAL_BYTES ||
            s->assembly_used > LIMIT_ASSEMBLY_TOTAL_BYTES - bytes)
                return false;
        return assembly_claim(c, bytes);
}

/* True when somebody got what it waited for. */
static bool grant_next(struct server *s)
{
        struct conn *c;
        list_each (c, &s->assembly_waiting, assembly_link) {
                if (try_grant(s, c, c->assembly_wanted)) {
                        c->assembly_seen = 0;
                        c->assembly_since = s->assembly_window;
                        conn_unblock(c, BLOCK_ASSEMBLY);
                        return true;
                }
        }
        return false;
}

void assembly_release(struct conn *c)
{
        struct server *s = c->server;
        list_remove(&c->assembly_link);
        if (c->assembly_bytes == 0)
                return;
        if (s->assembly_exceeding == c)
                s->assembly_exceeding = NULL;
        s->assembly_used -= c->assembly_bytes;
        c->assembly_bytes = 0;
        while (grant_next(s))
                ;
}

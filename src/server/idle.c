/* idle: looks from time to time whether there is a session, attached or detached, and drains the server when there was none for as
 * long as the configuration says.
 */
#include "server/idle.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/server.h"
#include "server/drain.h"

/* How often the server looks within its idle time: so it ends at most a quarter of that time too late. */
#define LOOKS 4

static void look(void *arg)
{
        struct server *s = arg;
        uint64_t limit_ms = s->config->exit_when_idle_sec * 1000, now = clock_mono_ms();
        bool is_used = map_count(&s->sessions) > 0 || !list_is_empty(&s->ended_sessions) ||
                       !list_is_empty(&s->conns.all);
        if (is_used || s->idle_session != s->last_session) {
                s->idle_session = s->last_session; /* a session may have come and gone since the last look */
                s->idle_since_ms = now;
        }
        if (now - s->idle_since_ms >= limit_ms) {
                log_info("nobody has used this server", "seconds=%ju",
                         (uintmax_t)s->config->exit_when_idle_sec);
                server_drain(s);
                return;
        }
        timer_start(s->idle_timer, limit_ms / LOOKS);
}

void idle_begin(struct server *s)
{
        if (s->config->exit_when_idle_sec == 0)
                return;
        s->idle_since_ms = clock_mono_ms();
        s->idle_timer = timer_new(&s->loop, look, s);
        timer_start(s->idle_timer, s->config->exit_when_idle_sec * 1000 / LOOKS);
}

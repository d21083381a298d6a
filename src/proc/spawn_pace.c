/* spawn_pace: decides which starts may be sent to the spawner now.
 *
 * The kernel may run the newest process first. A command leads a session, and a session is a scheduling group of its own where
 * autogroups are on; Linux 6.18 prefers a new group to one that has waited, so that in a stream of short commands one in a hundred
 * waited while hundreds overtook it. So at most LIMIT_STARTS_AHEAD starts are sent after a start that still waits for a
 * processor. The others wait here, in their order: when no new process comes, the kernel runs those that it has.
 *
 * A command waits for a processor until it has ended or has run for LIMIT_STARTS_SETTLE_MS since its execve. An execve may also
 * hang, on a file server that does not answer: other starts wait for it LIMIT_STARTS_AHEAD_MS at most, and when several hang, the
 * other starts do not wait at all. So a dead disk of one client does not delay the others.
 */
#include "base/clock.h"
#include "base/limits.h"
#include "proc/spawn_internal.h"

bool pace_may_start(const struct spawner *s)
{
        const struct spawned *oldest = list_first(&s->starting, struct spawned, pace_link);
        return !oldest || s->hanging >= LIMIT_STARTS_HANGING ||
               s->starts_sent - oldest->start_number <= LIMIT_STARTS_AHEAD;
}

void pace_sent(struct spawner *s, struct spawned *c)
{
        c->start_number = s->starts_sent++;
        c->pace_ms = clock_mono_ms();
        list_append(&s->starting, &c->pace_link);
}

static void hang_end(struct spawner *s, struct spawned *c)
{
        s->hanging -= c->is_hanging;
        c->is_hanging = false;
}

void pace_executed(struct spawner *s, struct spawned *c)
{
        hang_end(s, c);
        c->has_begun = true;
        c->pace_ms = clock_mono_ms();
}

void pace_ended(struct spawner *s, struct spawned *c)
{
        hang_end(s, c);
        list_remove(&c->pace_link);
}

static int left_ms(const struct spawned *c)
{
        uint64_t age_ms = clock_mono_ms() - c->pace_ms;
        uint64_t most_ms = c->has_begun ? LIMIT_STARTS_SETTLE_MS : LIMIT_STARTS_AHEAD_MS;
        return age_ms >= most_ms ? 0 : (int)(most_ms - age_ms);
}

void pace_tick(struct spawner *s)
{
        struct spawned *c;
        while ((c = list_first(&s->starting, struct spawned, pace_link)) && left_ms(c) == 0) {
                list_remove(&c->pace_link);
                c->is_hanging = !c->has_begun;
                s->hanging += c->is_hanging;
        }
}

int pace_wait_ms(const struct spawner *s)
{
        if (list_is_empty(&s->waiting))
                return -1;
        return pace_may_start(s) ? 0 : left_ms(list_first(&s->starting, struct spawned, pace_link));
}

/* spawner_held: ends commands that keep the server's loop waiting for the lock of their pipe (pipe_watch.h).
 *
 * While commands run, the spawner looks every LIMIT_PIPE_IDLE_MS whether the loop is inside of a call on a command's pipe; if so,
 * it looks every LIMIT_PIPE_TICK_MS what the loop does there. Only an uninterruptible sleep counts: a server that waits for a
 * processor is in state R, however long. Each such look adds to the sum of the command, and each other look subtracts a little;
 * so a command that releases the lock now and then is found as well.
 *
 * A command is ended when its sum reaches LIMIT_PIPE_UNSURE_MS. Where the kernel does not tell in which function the server
  * sleeps, the server may be waiting for memory, and a look counts for the time since the last look; where the kernel names a
  * function of pipes, a look counts for SURE_FACTOR times as much.
 */
#include "spawner/spawner_internal.h"

#include "base/clock.h"
#include "base/limits.h"
#include "spawner/pipe_watch.h"

/* A sleep counts this many times its length where the kernel tells that the server sleeps in a function of pipes. */
#define SURE_FACTOR (LIMIT_PIPE_UNSURE_MS / LIMIT_PIPE_HELD_MS)
#define ALERT_FACTOR 5 /* the spawner looks this many times as often after it has ended a command */
/* Each look that does not find the server asleep subtracts this much from the sum of every command. */
#define FORGIVEN_MS (LIMIT_PIPE_TICK_MS * SURE_FACTOR / 20)

int held_wait_ms(const struct spawner_state *s)
{
        const struct held *h = &s->held;
        if (h->next_ms == 0 || s->is_closing)
                return -1;
        uint64_t now_ms = clock_mono_ms();
        return now_ms >= h->next_ms ? 0 : (int)(h->next_ms - now_ms);
}

/* Called when the server was found awake: makes every sum smaller. */
static void forgive(struct spawner_state *s)
{
        struct held *h = &s->held;
        struct slot *slot;
        if (!h->has_sums)
                return;
        h->has_sums = false;
        list_each (slot, &s->slots.live, link) {
                slot->held_ms -= MIN(slot->held_ms, (uint32_t)FORGIVEN_MS);
                h->has_sums |= slot->held_ms > 0;
        }
        h->others_ms -= MIN(h->others_ms, (uint32_t)FORGIVEN_MS);
        h->has_sums |= h->others_ms > 0;
        if (h->others_ms == 0)
                h->rounds = 0;
}

static void end(struct spawner_state *s, struct slot *slot)
{
        slot->held_ms = 0;
        if (slot->is_killed)
                return;
        slot->is_holder = true;
        atomic_store_explicit(&slot->keeper.is_holder, true, memory_order_release);
        slot_kill(s, slot);
}

/* Ends other commands, when the command of a locked pipe has gone or is being killed without effect: then another command was given
 * an end of the pipe. It cannot be found out which; first all commands in sandboxes are ended, and if that does not help, all. */
static void end_others(struct spawner_state *s)
{
        struct slot *slot;
        bool is_first = s->held.rounds++ == 0;
        s->held.others_ms = 0;
        list_each (slot, &s->slots.live, link)
                if (slot->image || !is_first)
                        end(s, slot);
}

/* Returns whether a command was ended a short time ago. Then other commands have less time, so that several that hold locks at
 * once do not add up to a long wait. */
static bool is_alert(const struct held *h, uint64_t now_ms)
{
        return h->ended_ms != 0 && now_ms - h->ended_ms < LIMIT_PIPE_ALERT_MS;
}

static uint32_t time_given_ms(const struct held *h, uint64_t now_ms)
{
        return is_alert(h, now_ms) ? LIMIT_PIPE_AGAIN_MS * SURE_FACTOR : LIMIT_PIPE_UNSURE_MS;
}

/* Returns the time between two looks at the server; `ms` is the normal one, which is shortened after a pipe was kept locked. */
static uint32_t pace_ms(const struct held *h, uint64_t now_ms, uint32_t ms)
{
        return is_alert(h, now_ms) ? ms / ALERT_FACTOR : ms;
}

/* Adds a sleep of the server to the sum of the command `number`, and ends the command if its sum is too large. */
static void add_sleep(struct spawner_state *s, uint32_t number, enum pipe_sleep sleep, uint64_t now_ms)
{
        struct held *h = &s->held;
        struct slot *slot = slots_find(&s->slots, number);
        uint32_t more_ms = pace_ms(h, now_ms, LIMIT_PIPE_TICK_MS) * (sleep == PIPE_LOCKED ? SURE_FACTOR : 1);
        h->has_sums = true;
        if (!slot || slot->is_killed) {
                h->others_ms += more_ms;
                if (h->others_ms >= LIMIT_PIPE_UNSURE_MS * SURE_FACTOR)
                        end_others(s);
                return;
        }
        slot->held_ms += more_ms;
        if (slot->held_ms < time_given_ms(h, now_ms))
                return;
        h->ended_ms = now_ms;
        h->next_ms = now_ms + pace_ms(h, now_ms, LIMIT_PIPE_TICK_MS);
        end(s, slot);
}

/* Returns whether the server sleeps in a call on a pipe. Without /proc: whether it is in the same call as at the last look. */
static enum pipe_sleep look(struct spawner_state *s, struct pipe_call call, bool *ret_is_ending)
{
        struct held *h = &s->held;
        struct pipe_sleeper server = pipe_watch_ask(s->setup.server, h->has_proc);
        bool is_same = call.count == (h->has_proc ? pipe_watch_look().count : h->count);
        h->count = call.count;
        *ret_is_ending = server.is_ending;
        return call.is_under_way && is_same ? server.sleep : PIPE_NO_SLEEP;
}

void held_tick(struct spawner_state *s)
{
        struct held *h = &s->held;
        if (s->is_closing || list_is_empty(&s->slots.live)) {
                h->next_ms = 0;
                return;
        }
        uint64_t now_ms = clock_mono_ms();
        bool is_first = h->next_ms == 0;
        if (!is_first && now_ms < h->next_ms)
                return;
        struct pipe_call call = pipe_watch_look();
        h->next_ms = now_ms + pace_ms(h, now_ms, call.is_under_way ? LIMIT_PIPE_TICK_MS : LIMIT_PIPE_IDLE_MS);
        if (is_first)
                return;
        bool is_ending;
        enum pipe_sleep sleep = look(s, call, &is_ending);
        /* When the server is killed the kernel closes its descriptors, which may wait for such a lock, before it reports the
         * death. */
        if (is_ending)
                close_down(s);
        else if (sleep != PIPE_NO_SLEEP)
                add_sleep(s, call.number, sleep, now_ms);
        else
                forgive(s);
}

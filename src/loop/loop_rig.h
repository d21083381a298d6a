/* loop_rig: a loop, and a descriptor that is watched, for the tests of the loop. Every wait ends by an event; the guard
 * timer only turns a hang into a failure. */
#pragma once

#include "base/log.h"
#include "loop/loop.h"
#include "unit.h"

#define GUARD_MS 60000

struct rig {
        struct loop loop;
        struct timer *guard;
};

static inline void on_guard(UNUSED void *arg)
{
        fail_msg("the loop waited for something that did not come");
}

static inline void rig_open(struct rig *rig)
{
        struct err err = ERR_INIT;
        log_set_level(LOG_OFF); /* the tests make epoll full on purpose */
        eq_int(loop_init(&rig->loop, &err), 0);
        rig->guard = timer_new(&rig->loop, on_guard, NULL);
        timer_start(rig->guard, GUARD_MS);
}

static inline void rig_close(struct rig *rig)
{
        rig->guard = timer_free(rig->guard);
        loop_release(&rig->loop);
}

/* Runs one turn, without waiting. */
static inline void turn(struct rig *rig)
{
        loop_turn(&rig->loop, false);
}

/* A watched descriptor, and what its watch has reported: the last events, and the number of calls. */
struct end {
        struct rig *rig;
        struct watch *watch;
        int fd;
        unsigned seen;
        int calls;
};

static inline void on_ready(void *arg, unsigned events)
{
        struct end *end = arg;
        end->seen = events;
        end->calls++;
}

static inline void on_ready_stop(void *arg, unsigned events)
{
        struct end *end = arg;
        on_ready(end, events);
        loop_stop(&end->rig->loop);
}

static inline void end_open(struct end *end, struct rig *rig, int fd, unsigned events, watch_fn fn)
{
        *end = (struct end){ .rig = rig, .fd = fd };
        eq_int(watch_new(&rig->loop, fd, events, fn, end, &end->watch), 0);
}

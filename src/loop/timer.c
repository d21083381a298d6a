/* timer: calls a function once after a time; may be started again. Running timers are in a binary heap, with the timer
 * that is due next at the top. */
#include "base/clock.h"
#include "base/mem.h"
#include "loop/loop_internal.h"

#include <limits.h>

#define STOPPED SIZE_MAX

struct timer {
        struct loop *loop;
        void (*fn)(void *arg);
        void *arg;
        uint64_t due_us;
        uint64_t start; /* the number of the start, which orders timers with the same time */
        size_t at;      /* the index in the heap, or STOPPED */
};

/* --- the heap ----------------------------------------------------------------------------------------------------- */

static bool is_before(const struct timer *a, const struct timer *b)
{
        return a->due_us != b->due_us ? a->due_us < b->due_us : a->start < b->start;
}

static void put(struct loop *l, size_t at, struct timer *t)
{
        l->timers[at] = t;
        t->at = at;
}

/* Puts `t` into the free place `at` of the heap and moves it to where it belongs: first up, then down. */
static void settle(struct loop *l, size_t at, struct timer *t)
{
        for (size_t parent; at > 0 && is_before(t, l->timers[parent = (at - 1) / 2]); at = parent)
                put(l, at, l->timers[parent]);
        for (size_t child; (child = 2 * at + 1) < l->timer_count; at = child) {
                if (child + 1 < l->timer_count && is_before(l->timers[child + 1], l->timers[child]))
                        child++;
                if (!is_before(l->timers[child], t))
                        break;
                put(l, at, l->timers[child]);
        }
        put(l, at, t);
}

static void heap_add(struct loop *l, struct timer *t)
{
        if (l->timer_count == l->timer_room) {
                l->timer_room = l->timer_room ? 2 * l->timer_room : 16;
                l->timers = mem_realloc(l->timers, l->timer_room * sizeof(*l->timers));
        }
        settle(l, l->timer_count++, t);
}

static void heap_remove(struct loop *l, struct timer *t)
{
        struct timer *last = l->timers[--l->timer_count];
        size_t at = t->at;
        t->at = STOPPED;
        if (last != t)
                settle(l, at, last);
}

/* --- timers ------------------------------------------------------------------------------------------------------- */

struct timer *timer_new(struct loop *l, void (*fn)(void *arg), void *arg)
{
        struct timer *t = mem_new(struct timer);
        *t = (struct timer){ .loop = l, .fn = fn, .arg = arg, .at = STOPPED };
        return t;
}

void timer_start(struct timer *t, uint64_t ms)
{
        timer_stop(t);
        uint64_t us;
        if (ckd_mul(&us, ms, (uint64_t)1000) || ckd_add(&t->due_us, us, clock_mono_us()))
                t->due_us = UINT64_MAX;
        t->start = t->loop->timer_starts++;
        heap_add(t->loop, t);
}

void timer_stop(struct timer *t)
{
        if (t->at != STOPPED)
                heap_remove(t->loop, t);
}

uint64_t timer_left_ms(const struct timer *t)
{
        uint64_t now_us = clock_mono_us();
        if (t->at == STOPPED || t->due_us <= now_us)
                return 0;
        return (t->due_us - now_us) / 1000 + ((t->due_us - now_us) % 1000 != 0);
}

struct timer *timer_free(struct timer *t)
{
        if (t)
                timer_stop(t);
        free(t);
        return NULL;
}

int timers_wait_ms(const struct loop *l)
{
        if (l->timer_count == 0)
                return -1;
        uint64_t now_us = clock_mono_us(), due_us = l->timers[0]->due_us;
        if (due_us <= now_us)
                return 0;
        return (int)MIN((due_us - now_us - 1) / 1000 + 1, (uint64_t)INT_MAX); /* rounded up: never early */
}

void timers_run(struct loop *l)
{
        if (l->timer_count == 0)
                return;
        uint64_t now_us = clock_mono_us(), starts = l->timer_starts;
        /* A timer that is started by one of these calls waits for the next turn, however soon it is due. */
        while (l->timer_count > 0 && l->timers[0]->due_us <= now_us && l->timers[0]->start < starts) {
                struct timer *t = l->timers[0];
                heap_remove(l, t);
                t->fn(t->arg);
        }
}

void timers_release(struct loop *l)
{
        for (size_t i = 0; i < l->timer_count; i++)
                l->timers[i]->at = STOPPED; /* the owner of the timer may free it later */
        l->timer_count = l->timer_room = 0;
        free(TAKE(l->timers));
}

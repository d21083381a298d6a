/* timer_test: timers run in order, once, and never early. */
#include "base/clock.h"
#include "loop/loop_rig.h"

#include <stdlib.h>

struct tick {
        struct rig *rig;
        struct timer *timer;
        struct timer *other;
        int calls, max_calls;
};

static void on_tick_stop_loop(void *arg)
{
        struct tick *tick = arg;
        tick->calls++;
        loop_stop(&tick->rig->loop);
}

TEST(a_timer_fires_once_and_not_early)
{
        struct rig rig;
        rig_open(&rig);
        struct tick tick = { .rig = &rig };
        tick.timer = timer_new(&rig.loop, on_tick_stop_loop, &tick);

        /* The time counts from the call, not from the beginning of the turn. */
        uint64_t before = clock_mono_ms();
        while (clock_mono_ms() < before + 5)
                ;
        uint64_t started = clock_mono_ms();
        timer_start(tick.timer, 20);
        loop_run(&rig.loop);
        ok(clock_mono_ms() >= started + 20);
        eq_int(tick.calls, 1);
        turn(&rig);
        turn(&rig);
        eq_int(tick.calls, 1);

        timer_free(tick.timer);
        rig_close(&rig);
}

static void on_tick_again(void *arg)
{
        struct tick *tick = arg;
        if (++tick->calls < tick->max_calls)
                timer_start(tick->timer, 0);
        else
                loop_stop(&tick->rig->loop);
}

TEST(a_timer_may_be_started_again_in_its_callback)
{
        struct rig rig;
        rig_open(&rig);
        struct tick tick = { .rig = &rig, .max_calls = 3 };
        tick.timer = timer_new(&rig.loop, on_tick_again, &tick);

        timer_start(tick.timer, 0);
        loop_run(&rig.loop);
        eq_int(tick.calls, 3);

        timer_free(tick.timer);
        rig_close(&rig);
}

static void on_tick_count(void *arg)
{
        ((struct tick *)arg)->calls++;
}

static void on_tick_stop_both(void *arg)
{
        struct tick *tick = arg;
        tick->calls++;
        timer_stop(tick->timer);
        timer_stop(tick->other);
        loop_stop(&tick->rig->loop);
}

TEST(a_stopped_timer_is_silent)
{
        struct rig rig;
        rig_open(&rig);
        struct tick first = { .rig = &rig }, second = { .rig = &rig };
        first.timer = timer_new(&rig.loop, on_tick_stop_both, &first);
        second.timer = timer_new(&rig.loop, on_tick_count, &second);
        first.other = second.timer;

        timer_stop(first.timer); /* never started: nothing happens */
        timer_start(second.timer, 0);
        timer_stop(second.timer);
        turn(&rig);
        eq_int(second.calls, 0);

        timer_start(first.timer, 0);
        timer_start(second.timer, 0); /* due in the same turn, after the one that stops it */
        loop_run(&rig.loop);
        turn(&rig);
        eq_int(first.calls, 1);
        eq_int(second.calls, 0);

        timer_free(first.timer);
        timer_free(second.timer);
        rig_close(&rig);
}

static void on_tick_free_both(void *arg)
{
        struct tick *tick = arg;
        tick->calls++;
        tick->timer = timer_free(tick->timer);
        tick->other = timer_free(tick->other);
        ok(!tick->timer && !tick->other);
        loop_stop(&tick->rig->loop);
}

TEST(timers_may_be_freed_in_a_callback)
{
        struct rig rig;
        rig_open(&rig);
        struct tick first = { .rig = &rig }, second = { .rig = &rig };
        first.timer = timer_new(&rig.loop, on_tick_free_both, &first);
        first.other = timer_new(&rig.loop, on_tick_count, &second);

        timer_start(first.timer, 0);
        timer_start(first.other, 0);
        loop_run(&rig.loop);
        turn(&rig);
        eq_int(first.calls, 1);
        eq_int(second.calls, 0);
        ok(timer_free(NULL) == NULL);
        rig_close(&rig);
}

TEST(starting_a_running_timer_replaces_it)
{
        struct rig rig;
        rig_open(&rig);
        struct tick tick = { .rig = &rig };
        tick.timer = timer_new(&rig.loop, on_tick_stop_loop, &tick);

        timer_start(tick.timer, GUARD_MS * 2);
        timer_start(tick.timer, 0);
        loop_run(&rig.loop);
        eq_int(tick.calls, 1);

        timer_start(tick.timer, 0);
        timer_start(tick.timer, GUARD_MS * 2);
        turn(&rig);
        eq_int(tick.calls, 1);

        timer_free(tick.timer);
        rig_close(&rig);
}

TEST(a_timer_that_starts_itself_again_has_one_call_a_turn)
{
        struct rig rig;
        rig_open(&rig);
        struct tick tick = { .rig = &rig, .max_calls = 1000 };
        tick.timer = timer_new(&rig.loop, on_tick_again, &tick);

        timer_start(tick.timer, 0);
        turn(&rig);
        eq_int(tick.calls, 1);
        turn(&rig);
        eq_int(tick.calls, 2);

        timer_free(tick.timer);
        rig_close(&rig);
}

TEST(a_timer_may_be_as_long_as_a_number_can_say)
{
        struct rig rig;
        rig_open(&rig);
        struct tick tick = { .rig = &rig };
        tick.timer = timer_new(&rig.loop, on_tick_count, &tick);

        timer_start(tick.timer, UINT64_MAX);
        turn(&rig);
        timer_start(tick.timer, UINT64_MAX / 1000);
        turn(&rig);
        eq_int(tick.calls, 0);

        timer_free(tick.timer);
        rig_close(&rig);
}

/* Many timers in no order; some are stopped, freed or started again. The others run in order. */
#define MANY 500

static struct {
        struct timer *timer;
        uint64_t due_from_us, due_to_us; /* the timer is due between these */
        bool runs;
} many[MANY];
static size_t many_seen[MANY], many_count;

static void on_many(void *arg)
{
        size_t i = (size_t)(uintptr_t)arg;
        ok(many[i].runs);
        many[i].runs = false;
        many_seen[many_count++] = i;
}

static void many_start(size_t i)
{
        uint64_t ms = (uint64_t)random() % 20;
        many[i].due_from_us = clock_mono_us() + ms * 1000;
        timer_start(many[i].timer, ms);
        many[i].due_to_us = clock_mono_us() + ms * 1000;
        many[i].runs = true;
}

TEST(timers_come_in_the_order_in_which_they_are_due)
{
        struct rig rig;
        size_t expected = 0;
        rig_open(&rig);
        srandom(1);
        many_count = 0;
        for (size_t i = 0; i < MANY; i++) {
                many[i].timer = timer_new(&rig.loop, on_many, (void *)(uintptr_t)i);
                many_start(i);
        }
        for (size_t i = 0; i < MANY; i++) {
                long choice = random() % 4;
                if (choice == 0)
                        timer_stop(many[i].timer);
                else if (choice == 1)
                        many[i].timer = timer_free(many[i].timer);
                else if (choice == 2)
                        many_start(i);
                many[i].runs = choice > 1;
                expected += many[i].runs;
        }
        while (many_count < expected)
                loop_turn(&rig.loop, true);
        for (size_t i = 1; i < expected; i++)
                ok(many[many_seen[i - 1]].due_from_us <= many[many_seen[i]].due_to_us);
        for (size_t i = 0; i < MANY; i++)
                timer_free(many[i].timer);
        rig_close(&rig);
}

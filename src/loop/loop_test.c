/* Tests of the loop. Every wait ends by an event; the guard timer only turns a hang into a failure. */
#include "loop/loop.h"

#include "base/clock.h"
#include "base/fd.h"
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define GUARD_MS 60000

struct rig {
        struct loop loop;
        struct timer *guard;
};

static void on_guard(UNUSED void *arg)
{
        fail_msg("the loop waited for something that did not come");
}

static void rig_open(struct rig *rig)
{
        struct err err = ERR_INIT;
        eq_int(loop_init(&rig->loop, &err), 0);
        rig->guard = timer_new(&rig->loop, on_guard, NULL);
        timer_start(rig->guard, GUARD_MS);
}

static void rig_close(struct rig *rig)
{
        rig->guard = timer_free(rig->guard);
        loop_release(&rig->loop);
}

/* One turn, without waiting. */
static void turn(struct rig *rig)
{
        (void)uv_run(&rig->loop.uv, UV_RUN_NOWAIT);
}

/* What happened, as letters in order. */
static char trace[64];

static void note(char c)
{
        size_t n = strlen(trace);
        ok(n + 1 < sizeof(trace));
        trace[n] = c;
        trace[n + 1] = 0;
}

static void trace_clear(void)
{
        trace[0] = 0;
}

/* --- the end of a turn -------------------------------------------------------------------------------------------- */

struct work {
        struct deferred deferred;
        char name;
        struct loop *loop;
        struct work *next; /* is deferred by this one */
};

static void on_work(struct deferred *d)
{
        struct work *w = container_of(d, struct work, deferred);
        note(w->name);
        if (w->next)
                loop_defer(w->loop, &w->next->deferred);
}

static void work_init(struct work *w, struct rig *rig, char name, struct work *next)
{
        *w = (struct work){ .name = name, .loop = &rig->loop, .next = next };
        deferred_init(&w->deferred, on_work);
        trace_clear();
}

TEST(deferred_work_runs_once_and_in_order)
{
        struct rig rig;
        struct work a, b, c;
        rig_open(&rig);
        work_init(&a, &rig, 'a', NULL);
        work_init(&b, &rig, 'b', NULL);
        work_init(&c, &rig, 'c', NULL);

        loop_defer(&rig.loop, &b.deferred);
        loop_defer(&rig.loop, &a.deferred);
        loop_defer(&rig.loop, &c.deferred);
        eq_str(trace, "");
        turn(&rig);
        eq_str(trace, "bac");
        turn(&rig);
        eq_str(trace, "bac");
        rig_close(&rig);
}

TEST(deferring_twice_is_one_run_at_the_first_place)
{
        struct rig rig;
        struct work a, b;
        rig_open(&rig);
        work_init(&a, &rig, 'a', NULL);
        work_init(&b, &rig, 'b', NULL);

        loop_defer(&rig.loop, &a.deferred);
        loop_defer(&rig.loop, &b.deferred);
        loop_defer(&rig.loop, &a.deferred);
        turn(&rig);
        eq_str(trace, "ab");

        loop_defer(&rig.loop, &a.deferred); /* and after it ran it may be deferred again */
        turn(&rig);
        eq_str(trace, "aba");
        rig_close(&rig);
}

TEST(what_deferred_work_defers_runs_in_the_same_turn)
{
        struct rig rig;
        struct work a, b, c;
        rig_open(&rig);
        work_init(&c, &rig, 'c', NULL);
        work_init(&b, &rig, 'b', &c);
        work_init(&a, &rig, 'a', &b);

        loop_defer(&rig.loop, &a.deferred);
        turn(&rig);
        eq_str(trace, "abc");
        rig_close(&rig);
}

static void on_work_once_more(struct deferred *d)
{
        struct work *w = container_of(d, struct work, deferred);
        note(w->name);
        if (strlen(trace) < 3)
                loop_defer(w->loop, d);
}

TEST(deferred_work_may_defer_itself)
{
        struct rig rig;
        struct work a;
        rig_open(&rig);
        work_init(&a, &rig, 'a', NULL);
        deferred_init(&a.deferred, on_work_once_more);

        loop_defer(&rig.loop, &a.deferred);
        turn(&rig);
        eq_str(trace, "aaa");
        rig_close(&rig);
}

TEST(cancelled_work_does_not_run)
{
        struct rig rig;
        struct work a, b;
        rig_open(&rig);
        work_init(&a, &rig, 'a', NULL);
        work_init(&b, &rig, 'b', NULL);

        deferred_cancel(&a.deferred); /* not deferred: nothing happens */
        loop_defer(&rig.loop, &a.deferred);
        loop_defer(&rig.loop, &b.deferred);
        deferred_cancel(&a.deferred);
        turn(&rig);
        eq_str(trace, "b");
        rig_close(&rig);
}

static void on_work_cancel_next(struct deferred *d)
{
        struct work *w = container_of(d, struct work, deferred);
        note(w->name);
        deferred_cancel(&w->next->deferred);
}

TEST(deferred_work_may_cancel_its_neighbour)
{
        struct rig rig;
        struct work a, b, c;
        rig_open(&rig);
        work_init(&a, &rig, 'a', &b);
        work_init(&b, &rig, 'b', NULL);
        work_init(&c, &rig, 'c', NULL);
        deferred_init(&a.deferred, on_work_cancel_next);

        loop_defer(&rig.loop, &a.deferred);
        loop_defer(&rig.loop, &b.deferred);
        loop_defer(&rig.loop, &c.deferred);
        turn(&rig);
        eq_str(trace, "ac");
        rig_close(&rig);
}

TEST(release_runs_what_is_still_deferred)
{
        struct rig rig;
        struct work a;
        rig_open(&rig);
        work_init(&a, &rig, 'a', NULL);

        loop_defer(&rig.loop, &a.deferred);
        rig_close(&rig);
        eq_str(trace, "a");
}

struct hook {
        struct rig *rig;
        struct work *work; /* deferred by the hook, once */
        int fd;            /* gets a byte, once */
};

static void on_turn_end(void *arg)
{
        struct hook *hook = arg;
        note('H');
        if (hook->work)
                loop_defer(&hook->rig->loop, &hook->work->deferred);
        hook->work = NULL;
        if (hook->fd >= 0)
                eq_int(write(hook->fd, "x", 1), 1);
        hook->fd = -1;
}

TEST(the_hook_runs_after_deferred_work_and_what_it_defers_does_not_wait_for_an_event)
{
        struct rig rig;
        struct work a, b;
        rig_open(&rig);
        work_init(&a, &rig, 'a', NULL);
        work_init(&b, &rig, 'b', NULL);
        struct hook hook = { .rig = &rig, .work = &b, .fd = -1 };

        loop_on_turn_end(&rig.loop, on_turn_end, &hook);
        loop_defer(&rig.loop, &a.deferred);
        turn(&rig);
        eq_str(trace, "aH");
        uv_run(&rig.loop.uv, UV_RUN_ONCE); /* would sleep for ever if the loop forgot it */
        eq_str(trace, "aHbH");
        rig_close(&rig);
}

struct end {
        struct rig *rig;
        struct watch *watch;
        int fd;
        unsigned seen;
        int calls;
};

static void on_ready_stop(void *arg, unsigned events)
{
        struct end *end = arg;
        end->seen = events;
        end->calls++;
        loop_stop(&end->rig->loop);
}

TEST(the_hook_runs_before_the_loop_sleeps)
{
        struct rig rig;
        int fds[2];
        rig_open(&rig);
        trace_clear();
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        struct end end = { .rig = &rig };
        struct hook hook = { .rig = &rig, .fd = fds[1] };

        /* Nothing is ready until the hook writes: a loop that slept first would sleep until the guard. */
        end.watch = watch_new(&rig.loop, fds[0], on_ready_stop, &end);
        watch_set(end.watch, WATCH_READ);
        loop_on_turn_end(&rig.loop, on_turn_end, &hook);
        loop_run(&rig.loop);
        eq_int(end.calls, 1);
        eq_str(trace, "H");

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

static void on_ready(void *arg, unsigned events)
{
        struct end *end = arg;
        end->seen = events;
        end->calls++;
}

static void end_open(struct end *end, struct rig *rig, int fd)
{
        *end = (struct end){ .rig = rig, .fd = fd };
        end->watch = watch_new(&rig->loop, fd, on_ready, end);
}

TEST(a_pipe_is_readable_when_it_holds_something_and_at_its_end)
{
        struct rig rig;
        struct end end;
        int fds[2];
        char c;
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        end_open(&end, &rig, fds[0]);

        eq_int(write(fds[1], "x", 1), 1);
        turn(&rig);
        eq_int(end.calls, 0); /* nothing is watched before watch_set */

        watch_set(end.watch, WATCH_READ);
        turn(&rig);
        eq_int(end.calls, 1);
        eq_int(end.seen, WATCH_READ);
        turn(&rig);
        eq_int(end.calls, 2); /* still unread */

        eq_int(read(fds[0], &c, 1), 1);
        turn(&rig);
        eq_int(end.calls, 2);

        fd_close(fds[1]);
        turn(&rig);
        eq_int(end.calls, 3);
        ok(end.seen & WATCH_READ);

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
}

TEST(a_paused_watch_is_silent_and_goes_on)
{
        struct rig rig;
        struct end end;
        int fds[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(write(fds[1], "x", 1), 1);
        end_open(&end, &rig, fds[0]);

        watch_set(end.watch, WATCH_READ);
        watch_set(end.watch, 0);
        watch_set(end.watch, 0);
        turn(&rig);
        eq_int(end.calls, 0);
        watch_set(end.watch, WATCH_READ);
        watch_set(end.watch, WATCH_READ);
        turn(&rig);
        eq_int(end.calls, 1);

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

TEST(only_the_events_asked_for_are_told)
{
        struct rig rig;
        struct end end;
        int fds[2];
        rig_open(&rig);
        eq_int(uv_socketpair(SOCK_STREAM, 0, fds, 0, 0), 0);
        eq_int(write(fds[1], "x", 1), 1);
        end_open(&end, &rig, fds[0]);

        watch_set(end.watch, WATCH_WRITE);
        turn(&rig);
        eq_int(end.seen, WATCH_WRITE);
        watch_set(end.watch, WATCH_READ);
        turn(&rig);
        eq_int(end.seen, WATCH_READ);
        watch_set(end.watch, WATCH_READ | WATCH_WRITE);
        turn(&rig);
        eq_int(end.seen, WATCH_READ | WATCH_WRITE);
        eq_int(end.calls, 3);

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

TEST(an_error_condition_counts_as_ready_and_may_be_watched_again)
{
        struct rig rig;
        struct end end;
        int fds[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        end_open(&end, &rig, fds[1]);
        fd_close(fds[0]); /* nobody will ever read */

        for (int i = 1; i <= 3; i++) {
                watch_set(end.watch, WATCH_WRITE);
                turn(&rig);
                eq_int(end.calls, i);
                eq_int(end.seen, WATCH_WRITE);
        }

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[1]);
}

static void is_always_ready(int fd)
{
        struct rig rig;
        struct end end;
        rig_open(&rig);
        end_open(&end, &rig, fd);

        turn(&rig);
        eq_int(end.calls, 0);
        watch_set(end.watch, WATCH_READ);
        turn(&rig);
        turn(&rig);
        eq_int(end.calls, 2);
        eq_int(end.seen, WATCH_READ);
        watch_set(end.watch, WATCH_READ | WATCH_WRITE);
        turn(&rig);
        eq_int(end.seen, WATCH_READ | WATCH_WRITE);
        watch_set(end.watch, 0);
        turn(&rig);
        eq_int(end.calls, 3);

        watch_free(end.watch);
        rig_close(&rig);
}

TEST(a_regular_file_is_always_ready)
{
        char path[] = "/tmp/loop_test.XXXXXX";
        _close_ int fd = mkostemp(path, O_CLOEXEC);
        ok(fd >= 0);
        eq_int(unlink(path), 0);
        is_always_ready(fd);
}

TEST(the_null_device_is_always_ready)
{
        _close_ int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        ok(fd >= 0);
        is_always_ready(fd);
}

static void on_ready_free(void *arg, UNUSED unsigned events)
{
        struct end *end = arg;
        end->calls++;
        end->watch = watch_free(end->watch);
        ok(end->watch == NULL);
}

TEST(a_watch_may_be_freed_in_its_own_callback)
{
        struct rig rig;
        int fds[2];
        _close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(write(fds[1], "x", 1), 1);
        struct end polled = { .watch = watch_new(&rig.loop, fds[0], on_ready_free, &polled) };
        struct end always = { .watch = watch_new(&rig.loop, null, on_ready_free, &always) };

        watch_set(polled.watch, WATCH_READ);
        watch_set(always.watch, WATCH_READ);
        turn(&rig);
        turn(&rig);
        turn(&rig);
        eq_int(polled.calls, 1);
        eq_int(always.calls, 1);
        ok(watch_free(NULL) == NULL);

        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

static void on_ready_free_both(void *arg, UNUSED unsigned events)
{
        struct end **ends = arg;
        ends[0]->calls++;
        for (int i = 0; i < 2; i++)
                ends[i]->watch = watch_free(ends[i]->watch);
}

/* Both are ready in the same turn: whoever comes first frees the other, which must then stay silent. */
TEST(a_watch_freed_by_another_callback_of_the_turn_is_silent)
{
        struct rig rig;
        struct end a = { 0 }, b = { 0 };
        struct end *ab[] = { &a, &b }, *ba[] = { &b, &a };
        int first[2], second[2];
        rig_open(&rig);
        eq_int(pipe2(first, O_CLOEXEC), 0);
        eq_int(pipe2(second, O_CLOEXEC), 0);
        eq_int(write(first[1], "x", 1), 1);
        eq_int(write(second[1], "x", 1), 1);
        a.watch = watch_new(&rig.loop, first[0], on_ready_free_both, ab);
        b.watch = watch_new(&rig.loop, second[0], on_ready_free_both, ba);

        watch_set(a.watch, WATCH_READ);
        watch_set(b.watch, WATCH_READ);
        turn(&rig);
        turn(&rig);
        eq_int(a.calls + b.calls, 1);

        rig_close(&rig);
        for (int i = 0; i < 2; i++) {
                fd_close(first[i]);
                fd_close(second[i]);
        }
}

TEST(a_number_that_is_used_again_gets_a_watch_of_its_own)
{
        struct rig rig;
        struct end old, new;
        int fds[2];
        rig_open(&rig);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        end_open(&old, &rig, fds[0]);
        watch_set(old.watch, WATCH_READ);
        turn(&rig);

        /* In the turn in which the old watch went, before libuv has let go of it. */
        int number = fds[0];
        watch_free(old.watch);
        fd_close(fds[0]);
        fd_close(fds[1]);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(fds[0], number);
        end_open(&new, &rig, fds[0]);
        watch_set(new.watch, WATCH_READ);
        turn(&rig);
        eq_int(new.calls, 0); /* an always-ready watch would have called */
        eq_int(write(fds[1], "x", 1), 1);
        turn(&rig);
        eq_int(new.calls, 1);
        eq_int(old.calls, 0);

        watch_free(new.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

/* --- timers ------------------------------------------------------------------------------------------------------- */

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

        /* The loop's idea of now is old by then: it must not count from there. */
        uint64_t before = clock_mono_ms();
        while (clock_mono_ms() < before + 5)
                ;
        uint64_t started = clock_mono_ms();
        timer_start(tick.timer, 20);
        loop_run(&rig.loop);
        ok(clock_mono_ms() >= started + 19); /* libuv rounds to whole milliseconds of another clock reading */
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

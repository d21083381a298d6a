/* loop_test: a turn of the loop, and its end. */
#include "base/fd.h"
#include "loop/loop_rig.h"

#include <fcntl.h>
#include <unistd.h>

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
        struct work *next; /* is deferred when this one runs */
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

        loop_defer(&rig.loop, &a.deferred); /* work that has run may be deferred again */
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

static void on_work_stop(struct deferred *d)
{
        on_work(d);
        loop_stop(container_of(d, struct work, deferred)->loop);
}

TEST(the_hook_runs_after_deferred_work_and_what_it_defers_does_not_wait_for_an_event)
{
        struct rig rig;
        struct work a, b;
        rig_open(&rig);
        work_init(&a, &rig, 'a', NULL);
        work_init(&b, &rig, 'b', NULL);
        deferred_init(&b.deferred, on_work_stop);
        struct hook hook = { .rig = &rig, .work = &b, .fd = -1 };

        loop_on_turn_end(&rig.loop, on_turn_end, &hook);
        loop_defer(&rig.loop, &a.deferred);
        loop_run(&rig.loop); /* would sleep for ever if the loop did not run the work */
        eq_str(trace, "aHbH");
        rig_close(&rig);
}

TEST(the_hook_runs_before_the_loop_sleeps)
{
        struct rig rig;
        int fds[2];
        rig_open(&rig);
        trace_clear();
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        struct end end;
        struct hook hook = { .rig = &rig, .fd = fds[1] };

        /* Nothing is ready until the hook writes: a loop that slept first would sleep until the guard. */
        end_open(&end, &rig, fds[0], WATCH_READ, on_ready_stop);
        loop_on_turn_end(&rig.loop, on_turn_end, &hook);
        loop_run(&rig.loop);
        eq_int(end.calls, 1);
        eq_str(trace, "H");

        watch_free(end.watch);
        rig_close(&rig);
        fd_close(fds[0]);
        fd_close(fds[1]);
}

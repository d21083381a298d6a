/* pool_test: which thread runs what, how many run at once, and what a call that hangs delays. */
#include "loop/pool.h"

#include "base/mem.h"
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define GUARD_MS 60000

struct rig {
        struct loop loop;
        struct timer *guard;
        struct pool *pool;
        unsigned wanted; /* how many calls of `done` stop the loop */
};

static struct rig *rig;

static void on_guard(UNUSED void *arg)
{
        fail_msg("work did not come back");
}

static void rig_open(struct rig *r, unsigned max_threads)
{
        struct err err = ERR_INIT;
        *r = (struct rig){ 0 };
        rig = r;
        eq_int(loop_init(&r->loop, &err), 0);
        r->guard = timer_new(&r->loop, on_guard, NULL);
        timer_start(r->guard, GUARD_MS);
        eq_int(pool_new(&r->loop, max_threads, &r->pool, &err), 0);
}

static void rig_close(struct rig *r)
{
        ok(pool_free(r->pool, GUARD_MS));
        r->guard = timer_free(r->guard);
        loop_release(&r->loop);
}

static void wait_done(struct rig *r, unsigned count)
{
        r->wanted = count;
        loop_run(&r->loop);
}

struct item {
        struct work work;
        pthread_t ran_on, done_on;
        int gate[2]; /* `run` waits for a byte from this pipe */
        atomic_uint *running, *most;
};

static void item_run(struct work *w)
{
        struct item *it = container_of(w, struct item, work);
        it->ran_on = pthread_self();
        unsigned now = it->running ? atomic_fetch_add(it->running, 1) + 1 : 0;
        unsigned most = it->most ? atomic_load(it->most) : 0;
        while (it->most && now > most && !atomic_compare_exchange_weak(it->most, &most, now))
                ;
        char c;
        if (it->gate[0] > 0)
                ok(read(it->gate[0], &c, 1) == 1);
        if (it->running)
                atomic_fetch_sub(it->running, 1);
}

static void item_done(struct work *w)
{
        struct item *it = container_of(w, struct item, work);
        it->done_on = pthread_self();
        if (--rig->wanted == 0)
                loop_stop(&rig->loop);
}

#define ITEM ((struct item){ .work = { .run = item_run, .done = item_done } })

TEST(work_runs_on_a_thread_and_ends_on_the_loop)
{
        struct rig r;
        rig_open(&r, 4);
        struct item it = ITEM;
        pool_submit(r.pool, &it.work);
        wait_done(&r, 1);
        ok(!pthread_equal(it.ran_on, pthread_self()));
        ok(pthread_equal(it.done_on, pthread_self()));
        rig_close(&r);
}

TEST(a_stuck_call_holds_up_nobody_else)
{
        struct rig r;
        rig_open(&r, 4);
        struct item stuck = ITEM, other = ITEM;
        ok(pipe(stuck.gate) == 0);
        pool_submit(r.pool, &stuck.work);
        pool_submit(r.pool, &other.work);
        wait_done(&r, 1);
        ok(other.done_on == pthread_self());
        ok(write(stuck.gate[1], "x", 1) == 1);
        wait_done(&r, 1);
        close(stuck.gate[0]);
        close(stuck.gate[1]);
        rig_close(&r);
}

TEST(the_number_of_threads_is_bounded_and_all_of_them_are_used)
{
        enum { COUNT = 40, MAX_THREADS = 3 };
        struct rig r;
        rig_open(&r, MAX_THREADS);
        atomic_uint running = 0, most = 0;
        struct item items[COUNT];
        int gate[2];
        ok(pipe(gate) == 0);
        for (int i = 0; i < COUNT; i++) {
                items[i] = ITEM;
                items[i].running = &running;
                items[i].most = &most;
                items[i].gate[0] = gate[0];
                pool_submit(r.pool, &items[i].work);
        }
        while (atomic_load(&running) < MAX_THREADS)
                usleep(100);
        char bytes[COUNT] = { 0 };
        ok(write(gate[1], bytes, COUNT) == COUNT);
        wait_done(&r, COUNT);
        eq_int(atomic_load(&most), MAX_THREADS);
        close(gate[0]);
        close(gate[1]);
        rig_close(&r);
}

/* The destructor of a thread-specific variable writes to a pipe when a thread ends: no code of the pool runs after that. */
static void tell_end(void *arg)
{
        const int *said = arg;
        must(write(said[1], "x", 1) == 1);
}

struct stuck {
        struct item item;
        pthread_key_t key;
        int ended[2];
};

static void stuck_run(struct work *w)
{
        struct stuck *s = container_of(w, struct stuck, item.work);
        must(pthread_setspecific(s->key, s->ended) == 0);
        item_run(w);
}

static int count_descriptors(void)
{
        int count = 0;
        for (int fd = 0; fd < 1024; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

TEST(a_pool_with_a_stuck_call_is_given_up_in_time_and_freed_by_it)
{
        struct rig r;
        rig_open(&r, 2);
        struct stuck stuck = { .item = ITEM };
        atomic_uint running = 0;
        stuck.item.work.run = stuck_run;
        stuck.item.running = &running;
        ok(pipe(stuck.item.gate) == 0 && pipe(stuck.ended) == 0);
        eq_int(pthread_key_create(&stuck.key, tell_end), 0);
        pool_submit(r.pool, &stuck.item.work);
        while (atomic_load(&running) == 0)
                usleep(100);
        ok(!pool_free(r.pool, 10));
        r.guard = timer_free(r.guard);
        loop_release(&r.loop);

        int before = count_descriptors();
        char byte;
        ok(write(stuck.item.gate[1], "x", 1) == 1);
        ok(read(stuck.ended[0], &byte, 1) == 1);
        eq_int(count_descriptors(), before - 1); /* the pool has closed its eventfd */
        for (int i = 0; i < 2; i++) {
                close(stuck.item.gate[i]);
                close(stuck.ended[i]);
        }
        pthread_key_delete(stuck.key);
}

/* --- work that makes more work ------------------------------------------------------------------------------------ */

struct chain {
        struct work work;
        struct chain *next[2]; /* submitted by done */
        int said[2];           /* run writes here */
        int heard;             /* done waits for a byte here */
        unsigned turn;         /* the turn in which done was called */
        bool was_cancelled;
};

static unsigned turn;

static void on_turn_end(UNUSED void *arg)
{
        turn++;
}

static void chain_run(struct work *w)
{
        struct chain *c = container_of(w, struct chain, work);
        if (c->said[1] > 0)
                ok(write(c->said[1], "x", 1) == 1);
}

static void chain_done(struct work *w)
{
        struct chain *c = container_of(w, struct chain, work);
        char byte;
        c->turn = turn;
        c->was_cancelled = w->is_cancelled;
        for (size_t i = 0; i < ARRAY_LEN(c->next); i++)
                if (c->next[i])
                        pool_submit(rig->pool, &c->next[i]->work);
        if (c->heard > 0)
                ok(read(c->heard, &byte, 1) == 1);
        if (rig->wanted > 0 && --rig->wanted == 0)
                loop_stop(&rig->loop);
}

#define CHAIN ((struct chain){ .work = { .run = chain_run, .done = chain_done } })

TEST(what_finishes_while_others_are_handed_over_has_its_own_turn)
{
        struct rig r;
        rig_open(&r, 1);
        loop_on_turn_end(&r.loop, on_turn_end, NULL);
        struct chain third = CHAIN, second = CHAIN, first = CHAIN;
        ok(pipe(third.said) == 0);
        first.next[0] = &second; /* the second is finished when the only thread runs the third */
        first.next[1] = &third;
        first.heard = third.said[0];
        pool_submit(r.pool, &first.work);
        wait_done(&r, 3);
        ok(second.turn > first.turn);
        close(third.said[0]);
        close(third.said[1]);
        rig_close(&r);
}

TEST(work_that_is_submitted_at_the_end_is_cancelled_and_makes_no_thread)
{
        for (int i = 0; i < 20; i++) {
                struct rig r;
                rig_open(&r, 4);
                struct chain last = CHAIN, first = CHAIN;
                ok(pipe(first.said) == 0);
                first.next[0] = &last;
                pool_submit(r.pool, &first.work);
                char byte;
                ok(read(first.said[0], &byte, 1) == 1); /* the work runs, so it is not cancelled */
                rig_close(&r);
                ok(!first.was_cancelled);
                ok(last.was_cancelled);
                close(first.said[0]);
                close(first.said[1]);
        }
}

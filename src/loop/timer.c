/* timer: one shot, may be started again. Outlives timer_free until libuv let go of it. */
#include "base/mem.h"
#include "loop/loop.h"

struct timer {
        uv_timer_t uv;
        void (*fn)(void *arg);
        void *arg;
};

static void on_timer(uv_timer_t *uv)
{
        struct timer *t = container_of(uv, struct timer, uv);
        t->fn(t->arg);
}

struct timer *timer_new(struct loop *l, void (*fn)(void *arg), void *arg)
{
        struct timer *t = mem_new(struct timer);
        t->fn = fn;
        t->arg = arg;
        uv_timer_init(&l->uv, &t->uv);
        return t;
}

void timer_start(struct timer *t, uint64_t ms)
{
        /* libuv counts from the start of the turn; a long turn must not make a timer early. */
        uv_update_time(t->uv.loop);
        uv_timer_start(&t->uv, on_timer, ms, 0);
}

void timer_stop(struct timer *t)
{
        uv_timer_stop(&t->uv);
}

static void on_closed(uv_handle_t *handle)
{
        free(container_of((uv_timer_t *)handle, struct timer, uv));
}

struct timer *timer_free(struct timer *t)
{
        if (t)
                uv_close((uv_handle_t *)&t->uv, on_closed);
        return NULL;
}

#include "loop/loop.h"

#include "base/mem.h"

#include <errno.h>

static void run_deferred(struct loop *l)
{
        /* What deferred work defers runs in the same turn: the list is drained, not walked. */
        for (;;) {
                struct deferred *d = list_first(&l->deferred, struct deferred, link);
                if (!d)
                        return;
                list_remove(&d->link);
                d->fn(d);
        }
}

static void on_again(UNUSED uv_idle_t *idle)
{
        /* Its presence alone keeps the loop from sleeping. */
}

static void on_prepare(uv_prepare_t *prepare)
{
        struct loop *l = prepare->data;
        uv_idle_stop(&l->again);
        run_deferred(l);
        if (l->on_turn_end)
                l->on_turn_end(l->arg);
        /* What the end of the turn has put off must not wait for the next event; but others have their turn first. */
        if (!list_is_empty(&l->deferred))
                uv_idle_start(&l->again, on_again);
}

int loop_init(struct loop *l, struct err *err)
{
        *l = (struct loop){ 0 };
        list_init(&l->deferred);
        int r = uv_loop_init(&l->uv);
        if (r < 0)
                return err_set(err, 0, r, "event loop: %s", uv_strerror(r));
        uv_prepare_init(&l->uv, &l->turn_end);
        l->turn_end.data = l;
        uv_prepare_start(&l->turn_end, on_prepare);
        uv_idle_init(&l->uv, &l->again);
        uv_unref((uv_handle_t *)&l->turn_end);
        return 0;
}

void loop_on_turn_end(struct loop *l, void (*fn)(void *arg), void *arg)
{
        l->on_turn_end = fn;
        l->arg = arg;
}

void loop_run(struct loop *l)
{
        uv_run(&l->uv, UV_RUN_DEFAULT);
}

void loop_stop(struct loop *l)
{
        uv_stop(&l->uv);
}

static void close_left_over(uv_handle_t *handle, void *arg)
{
        struct loop *l = arg;
        bool is_ours = handle == (uv_handle_t *)&l->turn_end || handle == (uv_handle_t *)&l->again;
        if (is_ours && !uv_is_closing(handle))
                uv_close(handle, NULL);
}

void loop_release(struct loop *l)
{
        run_deferred(l);
        l->on_turn_end = NULL;
        uv_walk(&l->uv, close_left_over, l);
        /* Runs the close callbacks of handles freed before; everything else was freed by its owner. */
        while (uv_run(&l->uv, UV_RUN_NOWAIT) != 0)
                ;
        (void)uv_loop_close(&l->uv); /* EBUSY would be a handle that an owner forgot: nothing to do at exit */
}

void deferred_init(struct deferred *d, void (*fn)(struct deferred *d))
{
        list_init(&d->link);
        d->fn = fn;
}

void loop_defer(struct loop *l, struct deferred *d)
{
        if (!list_is_linked(&d->link))
                list_append(&l->deferred, &d->link);
}

void deferred_cancel(struct deferred *d)
{
        list_remove(&d->link);
}

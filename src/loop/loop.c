/* loop: runs turns: deferred work and the end of the turn, then the sleep, then timers and ready descriptors. */
#include "loop/loop.h"

#include "base/fd.h"
#include "loop/loop_internal.h"

#include <errno.h>
#include <sys/epoll.h>

static void run_deferred(struct loop *l)
{
        /* Work that is deferred by deferred work runs in the same turn: the list is drained, not walked. */
        struct deferred *d;
        while ((d = list_first(&l->deferred, struct deferred, link))) {
                list_remove(&d->link);
                d->fn(d);
        }
}

int loop_init(struct loop *l, struct err *err)
{
        *l = (struct loop){ 0 };
        list_init(&l->deferred);
        list_init(&l->always);
        list_init(&l->unregistered);
        list_init(&l->freed);
        l->epoll = epoll_create1(EPOLL_CLOEXEC);
        if (l->epoll < 0)
                return err_set(err, 0, -errno, "event loop: %s", errno_text(errno));
        return 0;
}

void loop_on_turn_end(struct loop *l, void (*fn)(void *arg), void *arg)
{
        l->on_turn_end = fn;
        l->arg = arg;
}

/* Returns whether the loop must not sleep: work that was deferred at the end of the turn must not wait for the next event. Events
 * that have already happened are handled first. */
static bool has_work(const struct loop *l)
{
        return l->is_stopped || !list_is_empty(&l->deferred) || !list_is_empty(&l->always);
}

void loop_turn(struct loop *l, bool may_sleep)
{
        run_deferred(l);
        if (l->on_turn_end)
                l->on_turn_end(l->arg);
        watches_wait(l, may_sleep && !has_work(l) ? timers_wait_ms(l) : 0);
        timers_run(l);
}

void loop_run(struct loop *l)
{
        while (!l->is_stopped)
                loop_turn(l, true);
        l->is_stopped = false;
}

void loop_stop(struct loop *l)
{
        l->is_stopped = true;
}

void loop_release(struct loop *l)
{
        run_deferred(l);
        watches_free_freed(l);
        timers_release(l);
        l->epoll = fd_close(l->epoll);
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

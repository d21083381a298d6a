/* watch: readiness of one descriptor, through uv_poll, or always-ready where the kernel cannot poll it.
 *
 * libuv closes handles late, so a watch outlives watch_free until its close callback ran; it no longer calls anybody.
 */
#include "base/mem.h"
#include "loop/loop.h"

#include <errno.h>

struct watch {
        union {
                uv_handle_t handle;
                uv_poll_t poll;
                uv_idle_t idle;
        };
        bool is_idle; /* the descriptor cannot be polled */
        unsigned events;
        watch_fn fn;
        void *arg;
};

static void on_poll(uv_poll_t *poll, int status, int events)
{
        struct watch *w = container_of(poll, struct watch, poll);
        if (status < 0) {
                /* libuv has stopped the handle. There may be bytes before the error: go on watching until the caller's
                 * read or write has shown it. */
                uv_poll_start(&w->poll, (int)w->events, on_poll);
                events = (int)w->events;
        }
        w->fn(w->arg, (unsigned)events & w->events);
}

static void on_idle(uv_idle_t *idle)
{
        struct watch *w = container_of(idle, struct watch, idle);
        w->fn(w->arg, w->events);
}

struct watch *watch_new(struct loop *l, int fd, watch_fn fn, void *arg)
{
        struct watch *w = mem_new(struct watch);
        w->fn = fn;
        w->arg = arg;
        if (uv_poll_init(&l->uv, &w->poll, fd) < 0) {
                w->is_idle = true;
                uv_idle_init(&l->uv, &w->idle);
        }
        return w;
}

void watch_set(struct watch *w, unsigned events)
{
        if (w->events == events)
                return;
        w->events = events;
        if (w->is_idle) {
                if (events)
                        uv_idle_start(&w->idle, on_idle);
                else
                        uv_idle_stop(&w->idle);
                return;
        }
        if (events)
                uv_poll_start(&w->poll, (int)events, on_poll);
        else
                uv_poll_stop(&w->poll);
}

static void on_closed(uv_handle_t *handle)
{
        free(container_of(handle, struct watch, handle));
}

struct watch *watch_free(struct watch *w)
{
        if (w)
                uv_close(&w->handle, on_closed);
        return NULL;
}

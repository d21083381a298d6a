/* watch: reports when a descriptor is ready.
 *
 * A watch is registered with epoll once, changed in place, and removed when it is freed. A descriptor for which epoll has no
 * room is polled instead: while there are such descriptors, the loop sleeps in poll(2) on them and on the descriptor of epoll
 * itself. A descriptor that the kernel cannot poll at all is always ready.
 *
 * Events are fetched in batches, and a callback may free a watch for which the batch holds an event: the memory of a freed
 * watch stays until the whole batch is handled.
 */
#include "base/clock.h"
#include "base/fatal.h"
#include "base/log.h"
#include "base/mem.h"
#include "loop/loop_internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#define BATCH 256
#define REGISTER_AGAIN_MS 1000
#define WARN_AGAIN_MS 60000
#define TROUBLE_MS 10     /* between two tries when poll(2) or epoll_wait(2) itself has failed */
#define TROUBLES_MAX 1000 /* failures in a row after which the program ends */
#define CONTROL_TRIES 100

static_assert(WATCH_READ == POLLIN && WATCH_WRITE == POLLOUT, "asked for as poll(2) has it …");
static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR && EPOLLHUP == POLLHUP,
              "… and epoll(7) too");

struct watch {
        struct loop *loop;
        struct list link; /* loop::always, while events are asked for; loop::unregistered; loop::freed */
        int fd;
        bool is_always; /* the descriptor cannot be polled, and counts as ready */
        bool is_registered;
        unsigned events; /* what is asked for: WATCH_READ, WATCH_WRITE; 0: the watch is paused */
        watch_fn fn;     /* NULL: the watch was freed */
        void *arg;
};

/* --- epoll -------------------------------------------------------------------------------------------------------- */

/* epoll reports errors and hang-ups even if no events are asked for; a paused watch gets them once at most (EPOLLONESHOT). */
static int control(struct watch *w, int op)
{
        struct epoll_event ev = { .events = w->events ? w->events : EPOLLONESHOT, .data.ptr = w };
        return epoll_ctl(w->loop->epoll, op, w->fd, &ev) < 0 ? -errno : 0;
}

/* Changes or ends a registration, which takes no memory. If that fails all the same, the registration would go on with the wrong
 * events or point at a freed watch: the program ends. */
static void must_control(struct watch *w, int op)
{
        int r;
        for (int n = 0; (r = control(w, op)) < 0; n++) {
                must(r != -EBADF && r != -ENOENT && r != -EINVAL);
                if (n == CONTROL_TRIES)
                        fatal("cannot change what is watched", -r);
                (void)poll(NULL, 0, 1);
        }
}

static void add_unregistered(struct watch *w, int why)
{
        struct loop *l = w->loop;
        uint64_t now_ms = clock_mono_ms();
        if (now_ms >= l->warn_at_ms) {
                log_warn_r(why, "no epoll watch is left for this user: descriptors are polled",
                           "remedy=fs.epoll.max_user_watches");
                l->warn_at_ms = now_ms + WARN_AGAIN_MS;
        }
        if (l->unregistered_count++ == 0)
                l->register_at_ms = now_ms + REGISTER_AGAIN_MS;
        list_append(&l->unregistered, &w->link);
}

static void remove_unregistered(struct watch *w)
{
        list_remove(&w->link);
        w->loop->unregistered_count--;
}

/* Registers a watch with epoll. EPERM means that the descriptor cannot be polled. A lack of room in epoll is temporary, because it
 * depends on other processes: the watch is polled meanwhile. */
static int add(struct watch *w)
{
        int r = control(w, EPOLL_CTL_ADD);
        if (r == -EPERM)
                w->is_always = true;
        else if (r == -ENOSPC || r == -ENOMEM)
                add_unregistered(w, r);
        else if (r < 0)
                return r;
        else
                w->is_registered = true;
        return 0;
}

static void try_register(struct loop *l)
{
        struct watch *w;
        if (clock_mono_ms() < l->register_at_ms)
                return;
        while ((w = list_first(&l->unregistered, struct watch, link))) {
                if (control(w, EPOLL_CTL_ADD) < 0)
                        break;
                w->is_registered = true;
                remove_unregistered(w);
        }
        l->register_at_ms = clock_mono_ms() + REGISTER_AGAIN_MS;
}

/* --- the life of a watch ------------------------------------------------------------------------------------------ */

/* Has the loop call an always-ready watch in every turn while events are asked for. */
static void link_if_wanted(struct watch *w)
{
        if (!w->events)
                list_remove(&w->link);
        else if (!list_is_linked(&w->link))
                list_append(&w->loop->always, &w->link);
}

int watch_new(struct loop *l, int fd, unsigned events, watch_fn fn, void *arg, struct watch **ret)
{
        struct watch *w = mem_new(struct watch);
        *w = (struct watch){ .loop = l, .fd = fd, .events = events, .fn = fn, .arg = arg };
        list_init(&w->link);
        int r = add(w);
        if (r < 0) {
                free(w);
                return r;
        }
        if (w->is_always)
                link_if_wanted(w);
        *ret = w;
        return 0;
}

void watch_set(struct watch *w, unsigned events)
{
        if (w->events == events)
                return;
        w->events = events;
        if (w->is_always)
                link_if_wanted(w);
        else if (w->is_registered)
                must_control(w, EPOLL_CTL_MOD);
}

struct watch *watch_free(struct watch *w)
{
        if (!w)
                return NULL;
        if (w->is_registered)
                must_control(w, EPOLL_CTL_DEL);
        else if (!w->is_always)
                remove_unregistered(w);
        list_remove(&w->link);
        w->fn = NULL;
        list_append(&w->loop->freed, &w->link);
        return NULL;
}

/* --- reporting events --------------------------------------------------------------------------------------------- */

static void tell(struct watch *w, unsigned happened)
{
        if (happened & (POLLERR | POLLHUP | POLLNVAL))
                happened = w->events;
        if (w->fn && (happened & w->events))
                w->fn(w->arg, happened & w->events);
}

/* Handles a failure of epoll_wait. The next try may succeed, and no event is lost: events stay until they are fetched. */
static void wait_failed(struct loop *l, int os_errno)
{
        must(os_errno != EBADF && os_errno != EINVAL && os_errno != EFAULT);
        if (os_errno == EINTR)
                return;
        if (++l->troubles == TROUBLES_MAX)
                fatal("cannot wait for events", os_errno);
        (void)poll(NULL, 0, TROUBLE_MS);
}

static void wait_in_epoll(struct loop *l, int timeout_ms)
{
        struct epoll_event batch[BATCH];
        int n = epoll_wait(l->epoll, batch, BATCH, timeout_ms);
        if (n < 0)
                wait_failed(l, errno);
        else
                l->troubles = 0;
        for (int i = 0; i < n; i++)
                tell(batch[i].data.ptr, batch[i].events);
}

static int shorter(int a_ms, int b_ms)
{
        return a_ms < 0 ? b_ms : MIN(a_ms, b_ms);
}

/* Waits in poll(2). When that fails, because there is no memory, all descriptors count as ready: their owners try to read. */
static void wait_in_poll(struct loop *l, int timeout_ms)
{
        size_t count = l->unregistered_count, n = 0;
        _free_ struct pollfd *fds = mem_alloc((count + 1) * sizeof(*fds));
        _free_ struct watch **watches = mem_alloc(count * sizeof(*watches));
        struct watch *w;
        list_each (w, &l->unregistered, link) {
                fds[n] = (struct pollfd){ .fd = w->events ? w->fd : -1, .events = (short)w->events };
                watches[n++] = w;
        }
        must(n == count);
        fds[n] = (struct pollfd){ .fd = l->epoll, .events = POLLIN };

        int r = poll(fds, count + 1, shorter(timeout_ms, REGISTER_AGAIN_MS));
        if (r < 0 && errno == EINTR)
                return;
        bool has_failed = r < 0;
        if (has_failed || fds[count].revents)
                wait_in_epoll(l, has_failed ? shorter(timeout_ms, TROUBLE_MS) : 0);
        for (size_t i = 0; i < count; i++)
                tell(watches[i], has_failed ? watches[i]->events : (unsigned)fds[i].revents);
}

/* Calls the owner of each always-ready descriptor once, even if callbacks change or free watches meanwhile. */
static void tell_always(struct loop *l)
{
        struct list batch = LIST_INIT(batch);
        struct watch *w;
        while ((w = list_first(&l->always, struct watch, link))) {
                list_remove(&w->link);
                list_append(&batch, &w->link);
        }
        while ((w = list_first(&batch, struct watch, link))) {
                list_remove(&w->link);
                list_append(&l->always, &w->link);
                w->fn(w->arg, w->events);
        }
}

void watches_free_freed(struct loop *l)
{
        struct watch *w;
        while ((w = list_first(&l->freed, struct watch, link))) {
                list_remove(&w->link);
                free(w);
        }
}

void watches_wait(struct loop *l, int timeout_ms)
{
        if (l->unregistered_count > 0)
                try_register(l);
        if (l->unregistered_count > 0)
                wait_in_poll(l, timeout_ms);
        else
                wait_in_epoll(l, timeout_ms);
        tell_always(l);
        watches_free_freed(l);
}

/* dial: connects to the first of several addresses that answers. */
#include "egress/dial.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#define NEXT_MS 250 /* RFC 8305, 5 */

struct attempt {
        struct dial *dial;
        int fd; /* -1: not tried yet, or failed */
        struct watch *watch;
        struct sockaddr_storage address;
};

struct dial {
        struct loop *loop;
        dial_fn fn;
        void *arg;
        struct timer *timer;
        uint64_t deadline_ms;
        int why;
        size_t count, tried, open;
        struct attempt attempts[LIMIT_EGRESS_ADDRESSES];
};

static socklen_t size_of(const struct sockaddr_storage *a)
{
        return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static bool is_loopback(const struct sockaddr_storage *a)
{
        const struct sockaddr_in *in4 = (const void *)a;
        const struct sockaddr_in6 *in6 = (const void *)a;
        return a->ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)
                                        : ntohl(in4->sin_addr.s_addr) >> 24 == 127;
}

/* Returns a socket; *ret is 0 when it is connected, or -EINPROGRESS. */
static int connect_to(const struct sockaddr_storage *a, int *ret)
{
        int one = 1, fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
        if (fd < 0)
                return -errno;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        *ret = connect(fd, (const struct sockaddr *)a, size_of(a)) < 0 ? -errno : 0;
        if (*ret == -EINPROGRESS && is_loopback(a)) /* by now the other side has answered, or refused */
                *ret = connect(fd, (const struct sockaddr *)a, size_of(a)) < 0 ? -errno : 0;
        if (*ret == -EALREADY)
                *ret = -EINPROGRESS;
        if (*ret == 0 || *ret == -EINPROGRESS || *ret == -EINTR)
                return fd;
        fd_close(fd);
        return *ret;
}

struct dial *dial_free(struct dial *d)
{
        if (!d)
                return NULL;
        timer_free(d->timer);
        for (size_t i = 0; i < d->tried; i++) {
                watch_free(d->attempts[i].watch);
                fd_close(d->attempts[i].fd);
        }
        free(d);
        return NULL;
}

/* Ends the dial, and tells the owner. */
static void finish(struct dial *d, int fd, int why)
{
        dial_fn fn = d->fn;
        void *arg = d->arg;
        (void)dial_free(d);
        fn(arg, fd, why);
}

static void try_next(struct dial *d);

static void drop(struct attempt *a)
{
        a->watch = watch_free(a->watch);
        a->fd = fd_close(a->fd);
        a->dial->open--;
}

static void on_answer(void *arg, UNUSED unsigned events)
{
        struct attempt *a = arg;
        struct dial *d = a->dial;
        int error = 0;
        socklen_t size = sizeof(error);
        if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
                error = errno;
        if (error == 0) {
                a->watch = watch_free(a->watch);
                finish(d, TAKE_FD(a->fd), 0);
                return;
        }
        d->why = -error;
        drop(a);
        try_next(d);
}

static void on_time(void *arg)
{
        struct dial *d = arg;
        if (clock_mono_ms() >= d->deadline_ms)
                finish(d, -1, -ETIMEDOUT);
        else
                try_next(d);
}

static void wait_for(struct dial *d)
{
        uint64_t now_ms = clock_mono_ms(), left_ms = d->deadline_ms > now_ms ? d->deadline_ms - now_ms : 0;
        timer_start(d->timer, d->tried < d->count ? MIN(left_ms, (uint64_t)NEXT_MS) : left_ms);
}

/* Tries addresses until one takes its time. Ends the dial when there is none left. */
static void try_next(struct dial *d)
{
        while (d->tried < d->count) {
                struct attempt *a = &d->attempts[d->tried++];
                int connecting = 0, fd = connect_to(&a->address, &connecting);
                if (fd < 0) {
                        d->why = fd;
                        continue;
                }
                if (connecting == 0) {
                        finish(d, fd, 0);
                        return;
                }
                a->fd = fd;
                d->open++;
                int r = watch_new(d->loop, fd, WATCH_WRITE, on_answer, a, &a->watch);
                if (r == 0)
                        break;
                d->why = r;
                drop(a);
        }
        if (d->open == 0)
                finish(d, -1, d->why);
        else
                wait_for(d);
}

struct dial *dial_start(struct loop *l, const struct sockaddr_storage *addresses, size_t count, dial_fn fn,
                        void *arg)
{
        int connecting = 0, fd = connect_to(&addresses[0], &connecting);
        if (fd >= 0 && connecting == 0) {
                fn(arg, fd, 0);
                return NULL;
        }
        if (fd < 0 && count == 1) {
                fn(arg, -1, fd);
                return NULL;
        }
        struct dial *d = mem_new(struct dial);
        *d = (struct dial){ .loop = l,
                            .fn = fn,
                            .arg = arg,
                            .why = fd,
                            .count = MIN(count, (size_t)LIMIT_EGRESS_ADDRESSES) };
        d->deadline_ms = clock_mono_ms() + LIMIT_EGRESS_DIAL_MS;
        d->timer = timer_new(l, on_time, d);
        for (size_t i = 0; i < d->count; i++)
                d->attempts[i] = (struct attempt){ .dial = d, .fd = -1, .address = addresses[i] };
        d->tried = 1;
        struct attempt *first = &d->attempts[0];
        first->fd = fd < 0 ? -1 : fd;
        if (fd >= 0 && watch_new(l, fd, WATCH_WRITE, on_answer, first, &first->watch) < 0)
                first->fd = fd_close(first->fd);
        if (first->fd >= 0) {
                d->open = 1;
                wait_for(d);
        } else {
                timer_start(d->timer, 0); /* the caller must have what this returns before `fn` is called */
        }
        return d;
}

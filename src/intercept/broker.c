/* broker: the loop of the thread that decides about the starts of programs (broker.h).
 *
 * One thread serves all callers of one command. It waits only for a caller whose memory it reads or that it ends: a caller that is slow
 * there holds up only its own command. */
#include "intercept/broker_internal.h"

#include "base/clock.h"
#include "base/fatal.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/urgent.h"
#include "intercept/pack.h"
#include "intercept/wrapped.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define OWN_DESCRIPTORS 2     /* listener and socket; the descriptors of requests stand behind them */
#define REQUEST_DESCRIPTORS 3 /* the caller, the report of execve, the program outside */
#define IN_BYTES (64 * KIB)   /* more than an answer has */

/* Wakes broker and caller on each other's processor (Linux 6.6). */
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS _IOW('!', 4, uint64_t)
#endif

#define MS_US 1000LL
#define LOOK_MS 200 /* how often the callers of questions and of programs outside are looked at */

/* How often a watched execve is asked for: most take less than a millisecond. */
#define WATCH_BUSY_US 2000
#define WATCH_BUSY_STEP_US 100
#define WATCH_SLOW_US 100000
#define WATCH_STEP_US 1000
#define WATCH_SLOW_STEP_US 10000

/* Ends the keeper, of which the broker is a thread, when the broker cannot go on. The broker ends the keeper in no other way,
 * except that mem_alloc does the same when there is no memory. The death of the keeper ends the whole tree of the command, so that
 * no program runs undecided. */
void broker_die(const char *what, int os_errno)
{
        fatal(what, os_errno);
}

/* Returns how long poll may sleep, in microseconds; -1: for ever. */
static int64_t sleep_us(const struct broker *b)
{
        const struct request *r;
        if (list_is_empty(&b->requests))
                return -1;
        uint64_t now = clock_mono_us();
        int64_t least = LOOK_MS * MS_US;
        list_each (r, &b->requests, link) {
                int64_t wait = least;
                if (r->state == REQUEST_WATCHED) {
                        uint64_t age = now - r->begun_us;
                        wait = age < WATCH_BUSY_US   ? WATCH_BUSY_STEP_US
                               : age < WATCH_SLOW_US ? WATCH_STEP_US
                                                     : WATCH_SLOW_STEP_US;
                } else if (r->state == REQUEST_ENDING) {
                        wait = r->deadline_us > now ? (int64_t)(r->deadline_us - now) : WATCH_SLOW_STEP_US;
                }
                least = MIN(least, wait);
        }
        return least;
}

/* When the client wants reports, at most one decision about a caller in execve waits until its report is sent. */
bool broker_may_take(const struct broker *b)
{
        return b->options.reports ? b->out.n == 0 : b->out.n < LIMIT_INTERCEPT_OUT_BYTES;
}

/* Returns what becomes readable when the caller ends, or when a wrapper says something that may be heard now; -1: nothing does. */
static int caller_descriptor(const struct broker *b, const struct request *r)
{
        if (r->caller.wrapped) {
                bool may_hear =
                        r->state != REQUEST_ENDING && (r->state != REQUEST_READ || broker_may_take(b));
                return may_hear ? r->caller.wrapped->stream : -1;
        }
        return r->state == REQUEST_ASKED || r->state == REQUEST_OUTSIDE ? r->pidfd : -1;
}

static size_t polled_set(struct broker *b)
{
        struct request *r;
        size_t n = OWN_DESCRIPTORS, need = n;
        list_each (r, &b->requests, link)
                need += REQUEST_DESCRIPTORS;
        if (need > b->polled_room) {
                b->polled_room = need * 2;
                b->polled = mem_realloc(b->polled, b->polled_room * sizeof(*b->polled));
        }
        bool is_shell = b->start.asking == EXEC_ASKED_BY_SHELL;
        bool may_take = !b->is_over && (is_shell ? streams_may_begin(b) : broker_may_take(b));
        b->polled[0] = (struct pollfd){ .fd = may_take ? b->start.listener : -1, .events = POLLIN };
        b->polled[1] = (struct pollfd){ .fd = b->is_lost ? -1 : b->start.socket,
                                        .events = (short)(POLLIN | (b->out.n > 0 ? POLLOUT : 0)) };
        list_each (r, &b->requests, link) {
                r->poll_at = n;
                b->polled[n++] = (struct pollfd){ .fd = caller_descriptor(b, r), .events = POLLIN };
                b->polled[n++] = (struct pollfd){ .fd = r->outside.report, .events = POLLIN };
                b->polled[n++] = (struct pollfd){ .fd = r->outside.pidfd, .events = POLLIN };
        }
        return n;
}

static void requests_step(struct broker *b)
{
        struct request *r;
        list_each (r, &b->requests, link) {
                if (r->state == REQUEST_OVER || r->poll_at == 0)
                        continue;
                const struct pollfd *p = &b->polled[r->poll_at];
                request_step(b, r, &p[0], &p[1], &p[2]);
        }
        uint64_t now = clock_mono_us();
        if (!list_is_empty(&b->requests) && now - b->looked_us >= LOOK_MS * MS_US) {
                b->looked_us = now;
                requests_look(b);
        }
}

static void requests_clear(struct broker *b)
{
        struct request *r;
        list_each (r, &b->requests, link) {
                r->poll_at = 0;
                if (r->state == REQUEST_OVER)
                        request_free(r);
        }
}

static void turn(struct broker *b)
{
        size_t n = polled_set(b);
        int64_t us = sleep_us(b);
        const struct timespec ts = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
        if (ppoll(b->polled, n, us < 0 ? NULL : &ts, NULL) < 0) {
                if (errno == EINTR || errno == ENOMEM)
                        return;
                broker_die("poll of the broker", errno);
        }
        short listener = b->polled[0].revents, socket = b->polled[1].revents;
        requests_step(b);
        if (socket & POLLOUT)
                server_write(b);
        if (socket & ~POLLOUT)
                server_read(b);
        if (b->out.n == 0)
                requests_told(b);
        if (listener & POLLIN && b->start.asking == EXEC_ASKED_BY_SHELL)
                streams_take(b);
        else if (listener & POLLIN)
                broker_take(b);
        else if (listener)
                b->is_over = true;
        requests_clear(b);
        arena_release(&b->arena);
}

static bool kernel_is_known(void)
{
        struct seccomp_notif_sizes sizes;
        return sys_call3(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 &&
               sizes.seccomp_notif <= 1024 && sizes.seccomp_notif_resp <= sizeof(struct seccomp_notif_resp);
}

void *broker_run(void *broker_start)
{
        struct broker b = { .start = *(struct broker_start *)broker_start,
                            .arena = ARENA_INIT,
                            .in = BUF_INIT(IN_BYTES),
                            .out = BUF_INIT(LIMIT_INTERCEPT_OUT_BYTES + 2 * LIMIT_INTERCEPT_FRAME_BYTES) };
        free(broker_start);
        struct urgent_before before;
        (void)urgent_begin(0, URGENT_SHORT, &before); /* each start of a program waits for this thread */
        list_init(&b.requests);
        remembered_init(&b.remembered);
        if (b.start.asking == EXEC_ASKED_BY_KERNEL && !kernel_is_known())
                broker_die("notifications of this kernel", ENOSYS);
        int r = intercept_unpack(b.start.config, &b.options, &b.rules);
        if (r < 0)
                broker_die("rules of the command", -r);
        fd_close(b.start.config);
        /* Of broker and caller only one runs while the other waits: so the kernel need not wake a second processor for them. Older
         * kernels refuse this, and wake one. */
        if (b.start.asking == EXEC_ASKED_BY_KERNEL)
                (void)ioctl(b.start.listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                            SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);

        while (!b.is_over || !list_is_empty(&b.requests))
                turn(&b);

        request_free(b.unused);
        exec_rules_free(b.rules);
        remembered_release(&b.remembered);
        buf_release(&b.in);
        buf_release(&b.out);
        free(b.polled);
        fd_close(b.start.listener);
        fd_close(b.start.socket);
        return NULL;
}

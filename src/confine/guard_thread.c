/* guard_thread: runs the thread that kills commands whose masks are broken, however busy the owner's thread is.
 *
 * The thread finds the processes of a sandbox in the image, where the keeper has recorded them. A process number may belong
 * to another process by now. So the process is opened first (pidfd), and then its parent is compared: each recorded process
  * is a child of the process recorded before it, and a process with that parent belongs to this sandbox. The owner reports why the
 * command ended; guard_read notifies it, with or without the thread.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/sys_proc.h"
#include "base/urgent.h"
#include "confine/guard_internal.h"
#include "sandbox/image.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#define STACK_BYTES (256 * 1024)

/* ---- killing ---- */

/* Signals `pid` if it is a child of `parent`. An open pidfd always names the same process, so the process that gets the signal is
 * the one whose parent was compared. */
static void signal_child(pid_t pid, pid_t parent, int signo)
{
        if (pid <= 1 || parent <= 1)
                return;
        int pidfd = sys_pidfd_open(pid);
        if (pidfd < 0)
                return;
        if (sys_parent_of(pid) == parent)
                (void)sys_pidfd_signal(pidfd, signo);
        sys_close(pidfd);
}

/* Signals the keeper first, which then kills all processes of the sandbox. The keeper may be busy or not yet waiting, so the
 * recorded processes below it are killed here as well; the death of the init ends all other processes. */
void guard_kill(const struct guard_hold *h)
{
        struct image *i = h->image;
        if (!i || __atomic_load_n(&i->is_over, __ATOMIC_SEQ_CST))
                return;
        __atomic_store_n(&i->is_broken, 1, __ATOMIC_SEQ_CST);
        for (size_t n = IMAGE_KEEPER; n < IMAGE_LINE; n++)
                signal_child(__atomic_load_n(&i->line[n], __ATOMIC_SEQ_CST),
                             __atomic_load_n(&i->line[n - 1], __ATOMIC_SEQ_CST),
                             n == IMAGE_KEEPER ? IMAGE_KEEPER_KILL : SIGKILL);
}

/* ---- the thread ---- */

/* An urgent thread runs before all others. A command can rename files in a watched directory without end and must not keep
 * a processor busy with this thread. So a flood of events takes the urgency away for a while. */
struct pace {
        enum urgent urgent;
        struct urgent_before before;
        size_t events; /* in this span of time */
        uint64_t since_ms;
        bool is_flooded;
};

static void pace_set(struct pace *p, bool is_flooded)
{
        urgent_end(p->urgent, &p->before);
        p->is_flooded = is_flooded;
        p->urgent = urgent_begin(0, is_flooded ? URGENT_SHORT : URGENT_REAL_TIME, &p->before);
}

static void pace_count(struct pace *p, size_t events)
{
        uint64_t now_ms = clock_mono_ms();
        p->events += events;
        bool is_over = now_ms - p->since_ms >= LIMIT_GUARD_SPAN_MS, is_much = p->events > LIMIT_GUARD_EVENTS;
        if (is_much != p->is_flooded && (is_much || is_over))
                pace_set(p, is_much);
        if (is_over) {
                p->events = 0;
                p->since_ms = now_ms;
        }
}

static void *thread_main(void *arg)
{
        struct guard *g = arg;
        struct pace pace = { .since_ms = clock_mono_ms() };
        pace_set(&pace, false);
        for (;;) {
                struct pollfd fds[] = { { .fd = g->fd, .events = POLLIN },
                                        { .fd = g->stop_fd, .events = POLLIN } };
                if (poll(fds, ARRAY_LEN(fds), -1) < 0)
                        continue; /* at worst the system is out of memory */
                if (fds[1].revents)
                        return NULL;
                pthread_mutex_lock(&g->lock);
                size_t events = guard_take_events(g);
                bool has_news = !list_is_empty(&g->to_tell);
                pthread_mutex_unlock(&g->lock);
                if (has_news)
                        fd_signal(g->told_fd);
                pace_count(&pace, events);
        }
}

static int thread_add(struct guard *g)
{
        pthread_attr_t attr;
        sigset_t all, before;
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int r = pthread_create(&g->thread, &attr, thread_main, g);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
        return -r;
}

int guard_start(struct guard *g)
{
        g->told_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        g->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int r = g->told_fd < 0 || g->stop_fd < 0 ? -errno : thread_add(g);
        g->has_thread = r == 0;
        if (r < 0)
                guard_stop(g);
        return r;
}

void guard_stop(struct guard *g)
{
        if (g->has_thread) {
                fd_signal(g->stop_fd);
                must(pthread_join(g->thread, NULL) == 0);
        }
        g->has_thread = false;
        g->told_fd = fd_close(g->told_fd);
        g->stop_fd = fd_close(g->stop_fd);
}

/* pool: runs work on threads and hands it back to the loop.
 *
 * One mutex guards both queues; it is held for a few instructions. An eventfd tells the loop that work is finished. The
 * first thread is made with the pool and stays, so that there always is a thread; others are made when all are busy and end
 * after some time without work.
 */
#include "loop/pool.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#define STACK_BYTES (512 * 1024)
#define IDLE_SECONDS 10

struct pool {
        int finished_signal; /* an eventfd */
        struct watch *finished_watch;
        unsigned max_threads;

        pthread_mutex_t lock;
        pthread_cond_t has_work;
        pthread_cond_t thread_ended;
        struct list waiting;  /* work::link */
        struct list finished; /* work::link */
        unsigned waiting_count;
        unsigned threads, idle;
        bool is_ending;
        bool is_given_up; /* the last thread that ends frees the pool */
};

/* Waits for the next work. Returns NULL when this thread must end. The lock is held; the thread counts as idle. */
static struct work *next_work(struct pool *p)
{
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += IDLE_SECONDS;
        while (list_is_empty(&p->waiting) && !p->is_ending) {
                int r = pthread_cond_timedwait(&p->has_work, &p->lock, &until);
                if (r == ETIMEDOUT && list_is_empty(&p->waiting)) {
                        if (p->threads > 1)
                                break;
                        until.tv_sec += IDLE_SECONDS; /* the last thread stays */
                }
        }
        p->idle--;
        struct work *w = p->is_ending ? NULL : list_first(&p->waiting, struct work, link);
        if (w) {
                list_remove(&w->link);
                p->waiting_count--;
        }
        return w;
}

static void free_pool(struct pool *p)
{
        fd_close(p->finished_signal);
        pthread_mutex_destroy(&p->lock);
        pthread_cond_destroy(&p->has_work);
        pthread_cond_destroy(&p->thread_ended);
        free(p);
}

static void *thread_main(void *arg)
{
        struct pool *p = arg;
        struct work *w;
        pthread_mutex_lock(&p->lock);
        p->idle++;
        while ((w = next_work(p))) {
                pthread_mutex_unlock(&p->lock);
                w->run(w);
                pthread_mutex_lock(&p->lock);
                /* This thread is idle before the loop is told, so that the next work finds it and no other is made. */
                p->idle++;
                bool is_first = list_is_empty(&p->finished);
                list_append(&p->finished, &w->link);
                if (is_first && !p->is_ending) {
                        pthread_mutex_unlock(&p->lock); /* because the loop wakes and takes the lock */
                        fd_signal(p->finished_signal);
                        pthread_mutex_lock(&p->lock);
                }
        }
        bool is_last = --p->threads == 0 && p->is_given_up;
        pthread_cond_signal(&p->thread_ended);
        pthread_mutex_unlock(&p->lock);
        if (is_last)
                free_pool(p);
        return NULL;
}

/* Starts a thread in which all signals are blocked, because they belong to the loop's thread. The caller holds the lock. Returns 0
 * or -errno. */
static int add_thread(struct pool *p)
{
        pthread_attr_t attr;
        sigset_t all, before;
        pthread_t id;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int r = pthread_create(&id, &attr, thread_main, p);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
        if (r == 0)
                p->threads++;
        return -r;
}

/* Hands over the work that is finished now. Work that finishes meanwhile waits for the next turn, so that fast threads cannot
 * keep the loop from its other tasks. */
static void hand_over(struct pool *p)
{
        struct list batch = LIST_INIT(batch);
        struct work *w;
        pthread_mutex_lock(&p->lock);
        while ((w = list_first(&p->finished, struct work, link))) {
                list_remove(&w->link);
                list_append(&batch, &w->link);
        }
        pthread_mutex_unlock(&p->lock);
        while ((w = list_first(&batch, struct work, link))) {
                list_remove(&w->link);
                w->done(w);
        }
}

static void on_finished(void *arg, UNUSED unsigned events)
{
        struct pool *p = arg;
        eventfd_t count;
        /* The signal is cleared before the queue is read: work that finishes later signals again. */
        (void)eventfd_read(p->finished_signal, &count);
        hand_over(p);
}

static int make_signal(struct pool *p, struct loop *l)
{
        p->finished_signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (p->finished_signal < 0)
                return -errno;
        return watch_new(l, p->finished_signal, WATCH_READ, on_finished, p, &p->finished_watch);
}

int pool_new(struct loop *l, unsigned max_threads, struct pool **ret, struct err *err)
{
        struct pool *p = mem_new(struct pool);
        pthread_condattr_t attr;
        p->max_threads = max_threads;
        list_init(&p->waiting);
        list_init(&p->finished);
        pthread_mutex_init(&p->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&p->has_work, &attr);
        pthread_cond_init(&p->thread_ended, &attr);
        pthread_condattr_destroy(&attr);
        int r = make_signal(p, l);
        pthread_mutex_lock(&p->lock);
        if (r == 0)
                r = add_thread(p);
        pthread_mutex_unlock(&p->lock);
        if (r < 0) {
                err_set(err, 0, r, "thread for file work: %s", errno_text(r));
                pool_free(p, 0);
                return r;
        }
        *ret = p;
        return 0;
}

void pool_submit(struct pool *p, struct work *w)
{
        list_init(&w->link);
        w->is_cancelled = false;
        pthread_mutex_lock(&p->lock);
        list_append(&p->waiting, &w->link);
        p->waiting_count++;
        /* When no thread can be made, the work waits for an existing one. After pool_free has begun no thread is made, because
         * the pool may be freed before it runs; the work is only cancelled. */
        if (p->waiting_count > p->idle && p->threads < p->max_threads && !p->is_ending)
                (void)add_thread(p);
        pthread_mutex_unlock(&p->lock);
        pthread_cond_signal(&p->has_work);
}

/* Cancels the work that waits for a thread. Returns whether there was work to hand over, cancelled or done. */
static bool cancel_waiting(struct pool *p)
{
        struct work *w;
        pthread_mutex_lock(&p->lock);
        while ((w = list_first(&p->waiting, struct work, link))) {
                list_remove(&w->link);
                p->waiting_count--;
                w->is_cancelled = true;
                list_append(&p->finished, &w->link);
        }
        bool has_some = !list_is_empty(&p->finished);
        pthread_mutex_unlock(&p->lock);
        return has_some;
}

bool pool_free(struct pool *p, uint64_t wait_ms)
{
        if (!p)
                return true;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        uint64_t ns = (uint64_t)until.tv_nsec + wait_ms % 1000 * 1000000;
        until.tv_sec += (time_t)(wait_ms / 1000 + ns / 1000000000);
        until.tv_nsec = (long)(ns % 1000000000);

        pthread_mutex_lock(&p->lock);
        p->is_ending = true;
        pthread_cond_broadcast(&p->has_work);
        int r = 0;
        while (p->threads > 0 && r != ETIMEDOUT)
                r = pthread_cond_timedwait(&p->thread_ended, &p->lock, &until);
        bool is_over = p->threads == 0; /* else a thread is stuck in its work */
        pthread_mutex_unlock(&p->lock);
        while (cancel_waiting(p)) /* a `done` may submit more work */
                hand_over(p);
        p->finished_watch = watch_free(p->finished_watch);
        pthread_mutex_lock(&p->lock);
        p->is_given_up = true;
        bool is_last = p->threads == 0;
        pthread_mutex_unlock(&p->lock);
        if (is_last)
                free_pool(p);
        return is_over;
}

/* loop: descriptors, timers, signals, and the end of a turn, on epoll(7).
 *
 * One thread owns the loop and all state. watch_free and timer_free may be called anywhere, also inside a callback: the loop
 * makes no further call for what they freed. An owner that ends during a turn frees itself with loop_defer, at the end of
 * the turn, because the loop may still call it before.
 *
 * The end of a turn comes just before the loop sleeps: handlers only append to queues, and what they queued is written
 * there, once.
 *
 * The kernel limits the epoll registrations of each user, and sandboxed commands use up those of the server's user. When no
 * registration is left a descriptor is watched with poll(2) until the kernel grants one: that costs more, and works the same.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "base/list.h"

struct timer;

struct loop {
        int epoll;
        bool is_stopped;
        struct list deferred; /* deferred::link */
        /* Called after the deferred work of the turn; work that this call defers runs in the next turn. */
        void (*on_turn_end)(void *arg);
        void *arg;

        struct list always;       /* watch::link: the descriptor cannot be polled, and events are asked for */
        struct list unregistered; /* watch::link: epoll had no room */
        size_t unregistered_count;
        uint64_t register_at_ms; /* when the unregistered watches are offered to epoll again */
        uint64_t warn_at_ms;     /* when the next warning may be logged */
        unsigned troubles;       /* how many times in a row epoll_wait has failed */
        struct list freed;       /* watch::link: fetched events may still point at these */

        struct timer **timers; /* a heap, the timer that is due next first */
        size_t timer_count, timer_room;
        uint64_t timer_starts; /* counts starts: timers that are due together run in this order */
};

NODISCARD int loop_init(struct loop *l, struct err *err);
void loop_on_turn_end(struct loop *l, void (*fn)(void *arg), void *arg);
void loop_run(struct loop *l); /* until loop_stop */
void loop_stop(struct loop *l);
/* Ends the last turn, sleeps if there is nothing to do, and handles what happened. loop_run calls this until loop_stop. */
void loop_turn(struct loop *l, bool may_sleep);
/* Runs what is deferred. Watches and timers must have been freed. */
void loop_release(struct loop *l);

/* Work for the end of this turn. The link must stay alive until the work ran. Work that is deferred twice runs once. */
struct deferred {
        struct list link; /* loop::deferred */
        void (*fn)(struct deferred *d);
};
void deferred_init(struct deferred *d, void (*fn)(struct deferred *d));
void loop_defer(struct loop *l, struct deferred *d);
void deferred_cancel(struct deferred *d);

enum watch_events { WATCH_READ = 1, WATCH_WRITE = 4 };

/* The loop calls this with the events that are true. After an error on the descriptor it reports all events that were asked for,
 * so that the read or write of the owner returns the error. */
typedef void (*watch_fn)(void *arg, unsigned events);

struct watch;

/* Watches a descriptor, which stays the caller's: the caller frees the watch, and then closes the descriptor. The descriptor must
 * be non-blocking, because a read may find nothing although the descriptor was reported as ready. A descriptor that cannot be
 * polled (a regular file, /dev/null) counts as always ready. `events` may be 0. Returns 0 or -errno; a lack of epoll registrations
 * is no failure. */
NODISCARD int watch_new(struct loop *l, int fd, unsigned events, watch_fn fn, void *arg, struct watch **ret);
struct watch *watch_free(struct watch *w);        /* NULL is fine; returns NULL */
void watch_set(struct watch *w, unsigned events); /* 0 pauses */

NODISCARD struct timer *timer_new(struct loop *l, void (*fn)(void *arg), void *arg);
struct timer *timer_free(struct timer *t);      /* NULL is fine; returns NULL */
void timer_start(struct timer *t, uint64_t ms); /* runs once; replaces an earlier start */
void timer_stop(struct timer *t);
NODISCARD uint64_t timer_left_ms(const struct timer *t); /* until it runs, rounded up; 0 when it is stopped */

struct signals;

/* Delivers signals (a list that ends in 0) as calls from the loop. They stay blocked in the calling thread and in the processes
 * that it forks; other threads must block them too. Returns 0 or -errno. */
NODISCARD int signals_new(struct loop *l, const int *signos, void (*fn)(void *arg, int signo), void *arg,
                          struct signals **ret);
/* Ends the delivery; the signals get their default effect again. NULL is fine; returns NULL. */
struct signals *signals_free(struct signals *s);

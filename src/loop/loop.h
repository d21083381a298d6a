/* loop: libuv, reduced to what we use: descriptors, timers, signals, and the end of a turn.
 *
 * One thread owns the loop and all state. Objects that the loop may still call are never freed inside a callback by
 * hand: watch_free and timer_free take care of libuv's late close; an object of ours that dies during a turn is put off
 * with loop_defer until its end.
 *
 * The end of a turn comes just before the loop sleeps: handlers only append to queues, and what they queued is written
 * there, once.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "base/list.h"

#include <uv.h>

struct loop {
        uv_loop_t uv;
        uv_prepare_t turn_end;
        uv_idle_t again; /* runs while deferred work waits: the loop does not sleep */
        void (*on_turn_end)(
                void *arg); /* after the deferred work of the turn; what it defers comes next turn */
        void *arg;
        struct list deferred; /* struct deferred::link */
};

NODISCARD int loop_init(struct loop *l, struct err *err);
void loop_on_turn_end(struct loop *l, void (*fn)(void *arg), void *arg);
void loop_run(struct loop *l); /* until loop_stop */
void loop_stop(struct loop *l);
/* Closes what is left of handles; the loop must not run. */
void loop_release(struct loop *l);

/* Work for the end of this turn. The link must stay alive until it ran; deferring twice is one run. */
struct deferred {
        struct list link; /* loop::deferred */
        void (*fn)(struct deferred *d);
};
void deferred_init(struct deferred *d, void (*fn)(struct deferred *d));
void loop_defer(struct loop *l, struct deferred *d);
void deferred_cancel(struct deferred *d);

enum watch_events { WATCH_READ = UV_READABLE, WATCH_WRITE = UV_WRITABLE };

/* Is called with the events that hold; on an error condition of the descriptor with all that were asked for, so that the
 * read or write itself shows the error. */
typedef void (*watch_fn)(void *arg, unsigned events);

struct watch;

/* The descriptor stays the caller's: free the watch, then close. A descriptor that cannot be polled (a regular file,
 * /dev/null) counts as always ready. Nothing is watched until watch_set. */
NODISCARD struct watch *watch_new(struct loop *l, int fd, watch_fn fn, void *arg);
struct watch *watch_free(struct watch *w);        /* NULL is fine; returns NULL */
void watch_set(struct watch *w, unsigned events); /* 0 pauses */

struct timer;

NODISCARD struct timer *timer_new(struct loop *l, void (*fn)(void *arg), void *arg);
struct timer *timer_free(struct timer *t);      /* NULL is fine; returns NULL */
void timer_start(struct timer *t, uint64_t ms); /* once; replaces a running one */
void timer_stop(struct timer *t);

/* pool: threads for calls that may block, so that the loop never does.
 *
 * Work is plain data in and out: `run` is called on a thread and must touch nothing but its own work; `done` is called
 * on the loop afterwards, exactly once. Threads are made on demand up to a ceiling and end when they have been idle for
 * a while; work beyond the ceiling waits in order. Callers decide how many threads each of their clients may use.
 */
#pragma once

#include "base/list.h"
#include "loop/loop.h"

struct work {
        struct list link;             /* pool::waiting, then pool::finished */
        void (*run)(struct work *w);  /* called on a thread */
        void (*done)(struct work *w); /* called on the loop; may free `w` */
        bool is_cancelled;            /* the pool was given up before the work ran */
};

struct pool;

NODISCARD int pool_new(struct loop *l, unsigned max_threads, struct pool **ret, struct err *err);
/* Cancels the work that has not begun, and waits up to `wait_ms` for the work that runs. Work that still runs then goes on: the
 * caller must free nothing that the work points at, and the last thread of the pool frees the pool. Returns true when all threads
 * have ended. */
bool pool_free(struct pool *p, uint64_t wait_ms);

void pool_submit(struct pool *p, struct work *w);

/* pool: threads for calls that may block, so that the loop never does.
 *
 * Work is plain data in and out: `run` is called on a thread and must touch nothing but its own work; `done` is called
 * on the loop afterwards, exactly once. Threads are made on demand up to a ceiling and end when they have been idle for
 * a while; work beyond the ceiling waits in order. Who may have how many at once is the caller's business.
 */
#pragma once

#include "base/list.h"
#include "loop/loop.h"

struct work {
        struct list link;             /* pool's queues */
        void (*run)(struct work *w);  /* on a thread */
        void (*done)(struct work *w); /* on the loop; may free it */
        bool is_cancelled;            /* the pool was given up before it ran */
};

struct pool;

NODISCARD int pool_new(struct loop *l, unsigned max_threads, struct pool **ret, struct err *err);
/* Waits up to `wait_ms` for what runs. What is still running then is left alone: nothing that its work points at may be
 * freed, and the last such thread frees the pool. Work that was not begun is cancelled. Returns true when all threads
 * have ended. */
bool pool_free(struct pool *p, uint64_t wait_ms);

void pool_submit(struct pool *p, struct work *w);

/* selftest: finds out, once at start, which back end enforces sandboxes here, and tells it.
 *
 * On the pool, and a moment after the start, for it copies the server: the first clients shall not wait for it. Who asks
 * earlier has it done at once, and waits: a sandboxed command on the pool (preparer_backends), environment/info as a
 * parked request.
 */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "loop/pool.h"

struct server;
struct req;

#define SELFTEST_DELAY_MS 50
#define SELFTEST_WAITING_MAX 64 /* of environment/info; more are answered without it */

struct selftest {
        struct work work;
        struct timer *timer; /* NULL once it has begun */
        struct server *server;
        struct list waiting; /* struct info_wait::link */
        size_t waiting_count;
};

/* When there is a pool. */
void selftest_init(struct selftest *t, struct server *server);
void selftest_release(struct selftest *t);
/* environment/info, when it is over. 1: too many wait already. */
NODISCARD int selftest_await(struct selftest *t, struct req *req, struct err *err);

/* parked: a request that waits for something: a long poll, a full stdin, a start.
 *
 * It belongs to its connection's list and, by the struct that embeds it, to the task that will wake it. It is answered
 * exactly once, by parked_reply_begin/_end or parked_fail, or dropped without an answer when its connection goes first;
 * each of these ends it: the embedding struct is freed through `forget`.
 */
#pragma once

#include "base/list.h"
#include "server/conn.h"
#include "wire/rpc.h"

struct parked {
        struct list conn_link;            /* conn::parked */
        struct conn *conn;                /* NULL once it was answered or dropped */
        struct rpc_id id;                 /* own copy */
        uint64_t bytes;                   /* what it holds in memory */
        void (*forget)(struct parked *p); /* unlinks and frees the embedding struct */
};

struct req;

/* -32021 when the connection has too many, or they hold too much: then `p` is as before. */
NODISCARD int parked_init(struct parked *p, struct req *req, uint64_t bytes, void (*forget)(struct parked *p),
                          struct err *err);

void parked_reply_begin(struct parked *p, size_t hint, struct jsonw *ret);
void parked_reply_end(struct parked *p, struct jsonw *w);  /* ends it */
void parked_done(struct parked *p);                        /* was answered through its connection: ends it */
void parked_fail(struct parked *p, const struct err *err); /* ends it */

void parked_drop_all(struct conn *c);
void parked_fail_all(struct conn *c, const struct err *err);

/* parked: a request that waits for something: a long poll, a full stdin, a start.
 *
 * A parked request is in the list of its client. The struct that embeds it belongs to the object that it waits for. It is
 * answered exactly once: with conn_reply_begin, conn_reply_end and parked_done, or with parked_fail. When its connection ends
 * first, it is dropped without an answer. In each case `forget` frees the embedding struct.
 */
#pragma once

#include "base/list.h"
#include "core/client.h"
#include "wire/rpc.h"

struct parked {
        struct list client_link;          /* client::parked */
        struct client *client;            /* NULL when the request was answered or dropped */
        struct rpc_id id;                 /* a copy on the heap */
        uint64_t bytes;                   /* memory that the request holds */
        void (*forget)(struct parked *p); /* unlinks and frees the embedding struct */
};

struct req;

/* Parks a request. Fails with -32021 when too many requests wait, or they hold too much memory: then `p` is unchanged. */
NODISCARD int parked_init(struct parked *p, struct req *req, uint64_t bytes, void (*forget)(struct parked *p),
                          struct err *err);

/* Ends a parked request that was answered through its connection, or whose connection has ended. */
void parked_done(struct parked *p);
void parked_fail(struct parked *p, const struct err *err); /* answers with an error and ends the request */

void parked_drop_all(struct client *c);
void parked_fail_all(struct client *c, const struct err *err);

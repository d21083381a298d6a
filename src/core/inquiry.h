/* inquiry: a request that the server sends to a client, and that the client has not answered.
 *
 * The ids are 1, 2, … on each connection. An answer to an inquiry that was given up is ignored: it was on its way.
 */
#pragma once

#include "base/list.h"
#include "core/client.h"
#include "wire/rpc.h"

/* Embedded in a struct of the owner. The callbacks are called at most once, and the inquiry is over then. */
struct inquiry {
        struct list link;      /* client::inquiries */
        struct client *client; /* NULL: it is not open */
        int64_t id;
        /* `answer` is an RPC_RESPONSE or an RPC_ERROR. */
        void (*answered)(struct inquiry *i, const struct rpc_message *answer);
        void (*lost)(struct inquiry *i); /* the connection has ended */
};

/* Returns whether the client may have one more inquiry. */
NODISCARD bool inquiry_has_room(const struct client *c);
/* Send an inquiry, whose callbacks are set. Between the two calls the caller writes the members of the params. */
void inquiry_begin(struct inquiry *i, struct client *c, const char *method, size_t hint, struct jsonw *ret);
void inquiry_end(struct inquiry *i, struct jsonw *w);
/* Gives the inquiry up. Does nothing when it is not open. */
void inquiry_cancel(struct inquiry *i);

/* Takes an answer of the client. Returns false when there was no such inquiry on this connection. */
NODISCARD bool inquiry_take(struct client *c, const struct rpc_message *answer);
void inquiries_drop_all(struct client *c); /* called when the connection has ended */

/* outbox: where messages to the client go, and the batches whose answers go together.
 *
 * Everything that comes from the client is a batch: the messages of an array, or one message that came alone. It has a route, the number
 * of the place from which it came, so that a transport with more than one way to the client (mcphttp/relay.h) sends what belongs to it
 * there. On stdio there is one way, and the number is always 0.
 *
 * Every request of a batch is counted with batch_expect, and settled once by outbox_answer or outbox_drop. The answers of an array are sent
 * as one when the last one is there and the batch was closed. The batch frees itself then.
 */
#pragma once

#include "base/buf.h"

struct batch;

enum outbox_part {
        OUTBOX_MORE,    /* belongs to the route, on which more may follow */
        OUTBOX_LAST,    /* the last message of the route; empty: nothing is left to say */
        OUTBOX_REFUSED, /* as OUTBOX_LAST: what came on the route was no message, and this says why */
};

struct outbox {
        /* Empties the buffer. Route 0 with OUTBOX_MORE: the message belongs to nothing that came. */
        void (*send)(void *arg, uint64_t route, enum outbox_part part, struct buf *message);
        void *arg;
        size_t batch_max; /* the longest array of answers; 0: what all answers together can have */
        uint64_t last_id; /* of our requests; 0: there was none */
};

struct batch *batch_new(uint64_t route, bool is_array);
void batch_expect(struct batch *b);
/* What came is no message: the answer that follows says so. */
void batch_refuse(struct batch *b);
NODISCARD bool batch_is_array(const struct batch *b);
NODISCARD uint64_t batch_route(const struct batch *b);
/* No further request belongs to the batch. The caller must not use it any more. */
void batch_close(struct batch *b, struct outbox *o);

/* Sends a message that answers nothing, on a route, or with 0 on none. Empties the buffer, as the next function does. */
void outbox_send(struct outbox *o, uint64_t route, struct buf *message);
/* Sends an answer, with the others of its batch. */
void outbox_answer(struct outbox *o, struct batch *b, struct buf *message);
/* The request gets no answer. */
void outbox_drop(struct outbox *o, struct batch *b);

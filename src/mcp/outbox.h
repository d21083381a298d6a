/* outbox: where messages to the client go, and the batches whose answers go together.
 *
 * Every request of a batch is counted with batch_expect, and settled once by outbox_answer or outbox_drop. The answers are sent as one
 * array when the last one is there and the batch was closed; a batch without answers sends nothing. It frees itself then.
 */
#pragma once

#include "base/buf.h"

struct batch;

struct outbox {
        void (*send)(void *arg, struct buf *message); /* empties the buffer */
        void *arg;
        uint64_t last_id; /* of our requests; 0: there was none */
};

struct batch *batch_new(void);
void batch_expect(struct batch *b);
/* No further request belongs to the batch. The caller must not use it any more. */
void batch_close(struct batch *b, struct outbox *o);

/* Sends a message that answers nothing. Empties the buffer, as the next function does. */
void outbox_send(struct outbox *o, struct buf *message);
/* Sends an answer, with the others of its batch; NULL: alone. */
void outbox_answer(struct outbox *o, struct batch *b, struct buf *message);
/* The request gets no answer. */
void outbox_drop(struct outbox *o, struct batch *b);

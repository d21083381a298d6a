/* outq: what waits to be sent on one connection.
 *
 * Handlers append whole messages; nothing is sent here until the end of the turn, when outq_flush gives the kernel as
 * much as it takes with one writev. A message is written straight into the queue's memory, behind room for its frame
 * head; messages over LIMIT_FRAME_OUT_BYTES become continuation frames.
 *
 * Between outq_begin and outq_end (or outq_cancel) nothing else may be appended.
 */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "base/slice.h"
#include "wire/ws.h"

enum framing { FRAMING_WS, FRAMING_LINES, FRAMING_RAW };

struct outq {
        enum framing framing;
        struct list blocks;
        size_t bytes;       /* not yet sent */
        size_t max_message; /* largest message that the peer reads */
        /* the message under construction: where its head stands in the last block, and the room left for it */
        size_t head_at, head_room;
};

void outq_init(struct outq *q, enum framing framing, size_t max_message);
void outq_release(struct outq *q);

/* A buf to write one message into; `hint` is about how long it will be. Its ceiling is max_message. */
NODISCARD struct buf *outq_begin(struct outq *q, size_t hint);
/* 0, or -EMSGSIZE when it is longer than max_message (then nothing was appended). */
NODISCARD int outq_end(struct outq *q);
void outq_cancel(struct outq *q);

void outq_control(struct outq *q, enum ws_opcode opcode, struct slice payload); /* FRAMING_WS only */
void outq_raw(struct outq *q, struct slice bytes);

void outq_move(struct outq *to, struct outq *from); /* appends what `from` holds, which is empty afterwards */

/* 0 when all is sent, 1 when the descriptor takes no more now, -errno when it is dead. */
NODISCARD int outq_flush(struct outq *q, int fd);

/* outq: what waits to be sent on one connection.
 *
 * Handlers append whole messages; nothing is sent here until the end of the turn, when outq_flush gives the kernel as
 * much as it takes with one writev. A message is written straight into the queue's memory, behind room for its frame
 * head; messages over LIMIT_FRAME_OUT_BYTES become continuation frames.
 *
 * Between outq_begin and outq_end (or outq_cancel) nothing else may be appended.
 *
 * A message that was made elsewhere is taken over as it is. One that is too large to be in memory at once is a stream: its
 * pieces follow each other as frames of one message, and other messages wait behind the last piece (control frames do
 * not).
 */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "base/slice.h"
#include "wire/ws.h"

struct spares;

enum framing { FRAMING_WS, FRAMING_LINES, FRAMING_RAW };

struct outq {
        enum framing framing;
        struct list blocks;
        size_t bytes;       /* not yet sent */
        size_t max_message; /* largest message that the peer reads */
        bool is_streaming, has_first_piece;
        struct list held; /* blocks behind the stream */
        size_t held_bytes;
        /* the message under construction: where its head stands in the last block, and the room left for it */
        size_t head_at, head_room;
        struct spares *spares; /* where large buffers go that were sent; may be NULL */
};

void outq_init(struct outq *q, enum framing framing, size_t max_message);
void outq_release(struct outq *q);

/* A buf to write one message into; `hint` is about how long it will be. Its ceiling is max_message. */
NODISCARD struct buf *outq_begin(struct outq *q, size_t hint);
/* 0, or -EMSGSIZE when it is longer than max_message (then nothing was appended). */
NODISCARD int outq_end(struct outq *q);
void outq_cancel(struct outq *q);

/* Messages made elsewhere begin with so many bytes of room for the frame's head. */
#define OUTQ_ROOM WS_HEAD_MAX
/* Takes `message` (empty afterwards). -EMSGSIZE when it is longer than max_message: then nothing was appended. */
NODISCARD int outq_send(struct outq *q, struct buf *message);

/* Pieces are at most LIMIT_FRAME_OUT_BYTES, behind OUTQ_ROOM. The caller keeps to max_message. */
void outq_stream_begin(struct outq *q);
void outq_stream_piece(struct outq *q, struct buf *piece, bool is_last);

void outq_control(struct outq *q, enum ws_opcode opcode, struct slice payload); /* FRAMING_WS only */
void outq_raw(struct outq *q, struct slice bytes);

void outq_move(struct outq *to, struct outq *from); /* appends what `from` holds, which is empty afterwards */

/* What waits for the peer; of a stream, which waits for room itself, only what is behind it. */
static inline size_t outq_backlog(const struct outq *q)
{
        return q->is_streaming ? q->held_bytes : q->bytes;
}

/* 0 when all is sent, 1 when the descriptor takes no more now, -errno when it is dead. */
NODISCARD int outq_flush(struct outq *q, int fd);

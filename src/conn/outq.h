/* outq: the outgoing queue of one connection.
 *
 * Handlers append whole messages. Nothing is sent until the end of the turn, when outq_flush gives the kernel as
 * much as it takes with one writev. A message is written straight into the queue's memory, behind room for its frame
 * head; a message over LIMIT_FRAME_OUT_BYTES is split into several frames.
 *
 * Between outq_begin and outq_end (or outq_cancel) nothing else may be appended.
 *
 * A message that was written elsewhere is taken over without a copy. A message that is too large for memory is sent as a stream:
 * its pieces become the frames of one message, and other messages, except control frames, wait behind the last piece.
 */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "base/slice.h"
#include "wire/ws.h"

struct buffer_pool;

enum framing { FRAMING_WS, FRAMING_LINES, FRAMING_RAW };

struct outq {
        enum framing framing;
        struct list blocks;
        size_t bytes;       /* bytes not yet sent */
        size_t max_message; /* length of the longest message that the peer accepts */
        bool is_streaming, has_first_piece;
        struct list held; /* blocks that wait for the end of the stream */
        size_t held_bytes;
        /* For the message that is being written: the place of its frame head in the last block, and the room for that head. */
        size_t head_at, head_room;
        struct buffer_pool *buffer_pool; /* takes large buffers when they are sent; may be NULL */
};

void outq_init(struct outq *q, enum framing framing, size_t max_message);
void outq_release(struct outq *q);

/* Begins a message. The caller writes it into the returned buf, whose ceiling is max_message. `hint`: its approximate length. */
NODISCARD struct buf *outq_begin(struct outq *q, size_t hint);
/* Ends the message and frames it. Returns 0, or -EMSGSIZE when it is longer than max_message: then nothing was appended. */
NODISCARD int outq_end(struct outq *q);
void outq_cancel(struct outq *q);

/* A buf for outq_send or outq_stream_piece begins with this many unused bytes; the frame head is written into them. */
#define OUTQ_ROOM WS_HEAD_MAX
/* Appends a whole message and takes its memory (`message` is empty afterwards). Returns 0, or -EMSGSIZE when it is longer than
 * max_message: then nothing was appended. */
NODISCARD int outq_send(struct outq *q, struct buf *message);

/* Send a message in pieces. A piece has at most LIMIT_FRAME_OUT_BYTES behind OUTQ_ROOM. The caller must see to it that all pieces
 * together are not longer than max_message. */
void outq_stream_begin(struct outq *q);
void outq_stream_piece(struct outq *q, struct buf *piece, bool is_last);

void outq_control(struct outq *q, enum ws_opcode opcode, struct slice payload); /* FRAMING_WS only */
void outq_raw(struct outq *q, struct slice bytes);

void outq_move(struct outq *to, struct outq *from); /* appends what `from` holds, which is empty afterwards */

/* Returns the bytes that count against the high mark. While a stream is sent, only the messages behind it count, because the next
 * piece of the stream is made only when there is room. */
static inline size_t outq_backlog(const struct outq *q)
{
        return q->is_streaming ? q->held_bytes : q->bytes;
}

/* Sends as much as the descriptor takes. Returns 0 when all is sent, 1 when the descriptor takes no more now, or -errno. */
NODISCARD int outq_flush(struct outq *q, int fd);

/* outq: the outgoing queue of a connection: a list of blocks of memory with framed messages. */
#include "conn/outq.h"

#include "base/limits.h"
#include "base/mem.h"
#include "conn/buffer_pool.h"

#include <errno.h>
#include <sys/uio.h>

#define BLOCK_BYTES 4096 /* small messages of one turn share a block */
#define IOV_COUNT 64

struct block {
        struct list link; /* outq::blocks */
        struct buf buf;
        size_t done; /* bytes sent */
};

void outq_init(struct outq *q, enum framing framing, size_t max_message)
{
        /* max_message stays far below SIZE_MAX, because positions are added to it. */
        *q = (struct outq){ .framing = framing, .max_message = MIN(max_message, SIZE_MAX / 4) };
        list_init(&q->blocks);
        list_init(&q->held);
}

static void block_free(struct outq *q, struct block *b)
{
        list_remove(&b->link);
        buffer_pool_put(q->buffer_pool, &b->buf);
        free(b);
}

void outq_release(struct outq *q)
{
        struct block *b;
        list_each (b, &q->blocks, link)
                block_free(q, b);
        list_each (b, &q->held, link)
                block_free(q, b);
        q->bytes = q->held_bytes = 0;
}

/* Returns the list to which messages are appended now. While a stream is sent, they are held behind it. */
static struct list *open_end(struct outq *q)
{
        return q->is_streaming ? &q->held : &q->blocks;
}

static size_t *open_bytes(struct outq *q)
{
        return q->is_streaming ? &q->held_bytes : &q->bytes;
}

static struct block *last_block(struct list *blocks)
{
        return list_is_empty(blocks) ? NULL : list_entry(blocks->prev, struct block, link);
}

/* Returns the last block when `n` more bytes fit into it, otherwise a new block. */
static struct block *block_for(struct list *blocks, size_t n)
{
        struct block *b = last_block(blocks);
        if (b && b->buf.allocated - b->buf.n >= n)
                return b;
        b = mem_new(struct block);
        buf_init(&b->buf, SIZE_MAX / 2);
        char *room;
        must(buf_reserve(&b->buf, MAX(n, BLOCK_BYTES), &room) == 0);
        list_append(blocks, &b->link);
        return b;
}

struct buf *outq_begin(struct outq *q, size_t hint)
{
        size_t head = q->framing == FRAMING_WS ? ws_head_size(MIN(hint, LIMIT_FRAME_OUT_BYTES)) : 0;
        struct block *b = block_for(open_end(q), hint + WS_HEAD_MAX);
        q->head_at = b->buf.n;
        q->head_room = head;
        char *room;
        must(buf_reserve(&b->buf, head, &room) == 0);
        buf_commit(&b->buf, head);
        b->buf.cap = b->buf.n + q->max_message;
        return &b->buf;
}

void outq_cancel(struct outq *q)
{
        struct block *b = last_block(open_end(q));
        b->buf.cap = SIZE_MAX / 2;
        buf_truncate(&b->buf, q->head_at);
        if (b->buf.n == 0)
                block_free(q, b);
}

/* Writes the head of a frame in front of its payload. Moves the payload when less or more room was left than the head needs. */
static void frame_whole(struct outq *q, struct buf *buf, size_t payload)
{
        size_t head = ws_head_size(payload);
        if (head != q->head_room) {
                char *room;
                if (head > q->head_room)
                        must(buf_reserve(buf, head - q->head_room, &room) == 0);
                memmove(buf->p + q->head_at + head, buf->p + q->head_at + q->head_room, payload);
                buf->n = q->head_at;
                buf_commit(buf, head + payload);
        }
        (void)ws_head_write(buf->p + q->head_at, WS_TEXT, true, payload);
}

/* Splits a long payload into frames of LIMIT_FRAME_OUT_BYTES. Begins with the last frame, so that each byte moves only once. */
static void frame_split(struct outq *q, struct buf *buf, size_t payload)
{
        size_t frames = (payload + LIMIT_FRAME_OUT_BYTES - 1) / LIMIT_FRAME_OUT_BYTES;
        size_t head = ws_head_size(LIMIT_FRAME_OUT_BYTES);
        char *room;
        must(buf_reserve(buf, frames * WS_HEAD_MAX, &room) == 0);

        char *from = buf->p + q->head_at + q->head_room;
        size_t total = q->head_at;
        for (size_t i = frames; i-- > 0;) {
                size_t at = i * LIMIT_FRAME_OUT_BYTES;
                size_t len = MIN(payload - at, (size_t)LIMIT_FRAME_OUT_BYTES);
                /* All frames before this one are full, so their heads have the full size. */
                char *to = buf->p + q->head_at + at + i * head;
                size_t own = ws_head_size(len);
                memmove(to + own, from + at, len);
                (void)ws_head_write(to, i ? WS_CONTINUATION : WS_TEXT, i == frames - 1, len);
                total += own + len;
        }
        buf->n = q->head_at;
        buf_commit(buf, total - q->head_at);
}

int outq_end(struct outq *q)
{
        struct block *b = last_block(open_end(q));
        struct buf *buf = &b->buf;
        size_t payload = buf->n - q->head_at - q->head_room;
        if (payload > q->max_message) {
                outq_cancel(q);
                return -EMSGSIZE;
        }
        buf->cap = SIZE_MAX / 2;
        switch (q->framing) {
        case FRAMING_WS:
                if (payload <= LIMIT_FRAME_OUT_BYTES)
                        frame_whole(q, buf, payload);
                else
                        frame_split(q, buf, payload);
                break;
        case FRAMING_LINES:
                must(buf_append_char(buf, '\n') == 0);
                break;
        case FRAMING_RAW:
                break;
        }
        *open_bytes(q) += buf->n - q->head_at;
        return 0;
}

/* Appends a block that takes over the memory of `text`. */
static struct block *append_buf(struct list *blocks, struct buf *text)
{
        struct block *b = mem_new(struct block);
        b->buf = *text;
        b->buf.cap = SIZE_MAX / 2;
        buf_init(text, text->cap);
        list_append(blocks, &b->link);
        return b;
}

/* Appends `text`, which begins with OUTQ_ROOM unused bytes, as one frame. The head is written directly in front of the text. */
static void append_frame(struct outq *q, struct list *blocks, struct buf *text, enum ws_opcode opcode,
                         bool is_final, size_t *bytes)
{
        struct block *b = append_buf(blocks, text);
        size_t payload = b->buf.n - OUTQ_ROOM;
        b->done = OUTQ_ROOM;
        if (q->framing == FRAMING_WS) {
                b->done -= ws_head_size(payload);
                (void)ws_head_write(b->buf.p + b->done, opcode, is_final, payload);
        } else if (is_final) {
                must(buf_append_char(&b->buf, '\n') == 0);
        }
        *bytes += b->buf.n - b->done;
}

int outq_send(struct outq *q, struct buf *message)
{
        must(message->n >= OUTQ_ROOM);
        size_t payload = message->n - OUTQ_ROOM;
        if (payload > q->max_message)
                return -EMSGSIZE;
        if (q->framing == FRAMING_WS && payload > LIMIT_FRAME_OUT_BYTES) {
                struct block *b = append_buf(open_end(q), message);
                q->head_at = 0;
                q->head_room = OUTQ_ROOM;
                frame_split(q, &b->buf, payload);
                *open_bytes(q) += b->buf.n;
                return 0;
        }
        append_frame(q, open_end(q), message, WS_TEXT, true, open_bytes(q));
        return 0;
}

void outq_stream_begin(struct outq *q)
{
        must(!q->is_streaming);
        q->is_streaming = true;
        q->has_first_piece = false;
}

static void move_blocks(struct list *to, size_t *to_bytes, struct list *from, size_t *from_bytes)
{
        struct block *b;
        list_each (b, from, link) {
                list_remove(&b->link);
                list_append(to, &b->link);
        }
        *to_bytes += *from_bytes;
        *from_bytes = 0;
}

void outq_stream_piece(struct outq *q, struct buf *piece, bool is_last)
{
        must(q->is_streaming);
        append_frame(q, &q->blocks, piece, q->has_first_piece ? WS_CONTINUATION : WS_TEXT, is_last,
                     &q->bytes);
        q->has_first_piece = true;
        if (!is_last)
                return;
        q->is_streaming = false;
        move_blocks(&q->blocks, &q->bytes, &q->held, &q->held_bytes);
}

static void append_raw(struct list *blocks, struct slice bytes, size_t *counter)
{
        struct block *b = block_for(blocks, bytes.n);
        must(buf_append(&b->buf, bytes) == 0);
        *counter += bytes.n;
}

void outq_raw(struct outq *q, struct slice bytes)
{
        append_raw(open_end(q), bytes, open_bytes(q));
}

void outq_control(struct outq *q, enum ws_opcode opcode, struct slice payload)
{
        char frame[WS_HEAD_MAX + 125];
        must(payload.n <= 125);
        size_t head = ws_head_write(frame, opcode, true, payload.n);
        if (payload.n)
                memcpy(frame + head, payload.p, payload.n);
        append_raw(&q->blocks, slice_from(frame, head + payload.n), &q->bytes);
}

void outq_move(struct outq *to, struct outq *from)
{
        move_blocks(&to->blocks, &to->bytes, &from->blocks, &from->bytes);
}

static void forget_sent(struct outq *q, size_t n)
{
        q->bytes -= n;
        struct block *b;
        list_each (b, &q->blocks, link) {
                size_t part = MIN(n, b->buf.n - b->done);
                b->done += part;
                n -= part;
                if (b->done < b->buf.n)
                        return;
                block_free(q, b);
        }
}

int outq_flush(struct outq *q, int fd)
{
        while (q->bytes > 0) {
                struct iovec iov[IOV_COUNT];
                int count = 0;
                struct block *b;
                list_each (b, &q->blocks, link) {
                        if (count == IOV_COUNT)
                                break;
                        iov[count++] = (struct iovec){ b->buf.p + b->done, b->buf.n - b->done };
                }
                ssize_t r = writev(fd, iov, count);
                if (r < 0 && errno == EINTR)
                        continue;
                if (r < 0)
                        return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? 1 : -errno;
                forget_sent(q, (size_t)r);
                if (q->bytes > 0 && count < IOV_COUNT)
                        return 1; /* the kernel took less than offered: its buffer is full */
        }
        return 0;
}

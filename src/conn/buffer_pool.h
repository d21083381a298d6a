/* buffer_pool: large buffers whose bytes were sent, kept for a moment for the next answer.
 *
 * Fresh memory costs a page fault for every 4 KiB. For a block of a file these faults cost more than reading, encoding and
 * sending the block. So a few buffers are reused while there is work, and freed after LIMIT_BUFFER_POOL_MS without work. Only
 * the loop uses the pool; a thread gets a buffer together with its work.
 */
#pragma once

#include "base/buf.h"
#include "loop/loop.h"

#define BUFFER_POOL_COUNT 4

struct buffer_pool {
        struct timer *timer;
        struct buf bufs[BUFFER_POOL_COUNT];
        size_t count, bytes;
        bool is_used; /* a buffer was taken or put since the timer was started */
};

void buffer_pool_init(struct buffer_pool *s, struct loop *l);
void buffer_pool_release(struct buffer_pool *s);

/* Gives an empty buf, with the memory of a kept buffer when there is one. The caller sets its ceiling. */
void buffer_pool_take(struct buffer_pool *s, struct buf *ret);
/* Returns whether buffer_pool_put would keep this buffer. */
NODISCARD bool buffer_pool_can_keep(const struct buffer_pool *s, const struct buf *b);
/* Keeps the memory of `b`, or frees it; `b` is empty afterwards. `s` may be NULL. */
void buffer_pool_put(struct buffer_pool *s, struct buf *b);

/* Returns whether most of a large buffer is unused. Such a buffer must not stay in a queue, because queues are bounded by the
 * bytes of their messages and not by the memory that holds them. */
NODISCARD bool buffer_pool_is_wasted(const struct buf *b);
/* Replaces the memory of a wasted buffer by a copy of the right size. */
void buffer_pool_fit(struct buffer_pool *s, struct buf *b);

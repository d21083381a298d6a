/* spares: large buffers whose bytes were sent, kept for a moment for the next answer.
 *
 * Fresh memory costs a page fault for every 4 KiB: for a block of a file more than reading, encoding and sending it. So
 * a few buffers go round while there is work, and are given back when there was none for LIMIT_SPARES_MS. The loop's
 * alone: a thread gets a buffer with its work.
 */
#pragma once

#include "base/buf.h"
#include "loop/loop.h"

#define SPARES_COUNT 4

struct spares {
        struct timer *timer;
        struct buf bufs[SPARES_COUNT];
        size_t count, bytes;
        bool is_used; /* since the timer was started */
};

void spares_init(struct spares *s, struct loop *l);
void spares_release(struct spares *s);

/* An empty buf with whatever room there is; its ceiling is the caller's to set. */
void spares_take(struct spares *s, struct buf *ret);
/* Frees it, or keeps it: `b` is empty afterwards. NULL for s is fine. */
void spares_put(struct spares *s, struct buf *b);

/* Is most of a large buffer unused? Then it must not wait for anybody: what waits is bounded by its bytes, not by the
 * memory that they lie in. */
NODISCARD bool spares_is_wasted(const struct buf *b);
/* Gives such a buffer back and goes on with a copy. */
void spares_fit(struct spares *s, struct buf *b);

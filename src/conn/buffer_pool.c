/* buffer_pool: keeps a few large buffers for the next answer and frees them when there is no work. */
#include "conn/buffer_pool.h"

#include "base/limits.h"
#include "base/mem.h"

/* Smaller buffers are not kept: malloc gives them from its heap without page faults. */
#define BUFFER_POOL_MIN_BYTES (128 * KIB)
/* A buffer may be this many times larger than its content. With a smaller factor content would be copied too often. */
#define WASTE_FACTOR 4

static void drop_all(struct buffer_pool *s)
{
        while (s->count > 0)
                buf_release(&s->bufs[--s->count]);
        s->bytes = 0;
}

static void on_timer(void *arg)
{
        struct buffer_pool *s = arg;
        if (!s->is_used) {
                drop_all(s);
                return;
        }
        s->is_used = false;
        timer_start(s->timer, LIMIT_BUFFER_POOL_MS);
}

void buffer_pool_init(struct buffer_pool *s, struct loop *l)
{
        *s = (struct buffer_pool){ .timer = timer_new(l, on_timer, s) };
}

void buffer_pool_release(struct buffer_pool *s)
{
        drop_all(s);
        s->timer = timer_free(s->timer);
}

void buffer_pool_take(struct buffer_pool *s, struct buf *ret)
{
        buf_init(ret, SIZE_MAX / 2);
        if (s->count == 0)
                return;
        *ret = s->bufs[--s->count];
        s->bytes -= ret->allocated;
        buf_truncate(ret, 0);
        s->is_used = true;
}

bool buffer_pool_can_keep(const struct buffer_pool *s, const struct buf *b)
{
        return s->timer && s->count < BUFFER_POOL_COUNT && b->allocated >= BUFFER_POOL_MIN_BYTES &&
               s->bytes + b->allocated <= LIMIT_BUFFER_POOL_BYTES;
}

void buffer_pool_put(struct buffer_pool *s, struct buf *b)
{
        if (!s || !buffer_pool_can_keep(s, b)) {
                buf_release(b);
                return;
        }
        if (s->count == 0 && !s->is_used)
                timer_start(s->timer, LIMIT_BUFFER_POOL_MS);
        s->is_used = true;
        s->bufs[s->count++] = *b;
        s->bytes += b->allocated;
        buf_init(b, b->cap);
}

bool buffer_pool_is_wasted(const struct buf *b)
{
        return b->allocated >= BUFFER_POOL_MIN_BYTES && b->n < b->allocated / WASTE_FACTOR;
}

void buffer_pool_fit(struct buffer_pool *s, struct buf *b)
{
        if (!buffer_pool_is_wasted(b))
                return;
        struct buf copy = BUF_INIT(b->cap);
        must(buf_append(&copy, buf_slice(b)) == 0);
        buffer_pool_put(s, b);
        *b = copy;
}

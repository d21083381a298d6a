#include "server/spares.h"

#include "base/limits.h"
#include "base/mem.h"

/* Smaller ones come from the heap without page faults. */
#define SPARE_MIN_BYTES (128 * KIB)
/* So many times the bytes in it a buffer may take up; less, and they would be copied all the time. */
#define WASTE_FACTOR 4

static void drop_all(struct spares *s)
{
        while (s->count > 0)
                buf_release(&s->bufs[--s->count]);
        s->bytes = 0;
}

static void on_timer(void *arg)
{
        struct spares *s = arg;
        if (!s->is_used) {
                drop_all(s);
                return;
        }
        s->is_used = false;
        timer_start(s->timer, LIMIT_SPARES_MS);
}

void spares_init(struct spares *s, struct loop *l)
{
        *s = (struct spares){ .timer = timer_new(l, on_timer, s) };
}

void spares_release(struct spares *s)
{
        drop_all(s);
        s->timer = timer_free(s->timer);
}

void spares_take(struct spares *s, struct buf *ret)
{
        buf_init(ret, SIZE_MAX / 2);
        if (s->count == 0)
                return;
        *ret = s->bufs[--s->count];
        s->bytes -= ret->allocated;
        buf_truncate(ret, 0);
        s->is_used = true;
}

void spares_put(struct spares *s, struct buf *b)
{
        if (!s || !s->timer || s->count == SPARES_COUNT || b->allocated < SPARE_MIN_BYTES ||
            s->bytes + b->allocated > LIMIT_SPARES_BYTES) {
                buf_release(b);
                return;
        }
        if (s->count == 0 && !s->is_used)
                timer_start(s->timer, LIMIT_SPARES_MS);
        s->is_used = true;
        s->bufs[s->count++] = *b;
        s->bytes += b->allocated;
        buf_init(b, b->cap);
}

bool spares_is_wasted(const struct buf *b)
{
        return b->allocated >= SPARE_MIN_BYTES && b->n < b->allocated / WASTE_FACTOR;
}

void spares_fit(struct spares *s, struct buf *b)
{
        if (!spares_is_wasted(b))
                return;
        struct buf copy = BUF_INIT(b->cap);
        must(buf_append(&copy, buf_slice(b)) == 0);
        spares_put(s, b);
        *b = copy;
}

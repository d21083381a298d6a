/* head_tail: keeps the beginning and the end of a long output, up to a limit. */
#include "base/head_tail.h"

#include "base/fatal.h"

void head_tail_init(struct head_tail *h, size_t cap_bytes)
{
        size_t head = cap_bytes / 2, tail = cap_bytes - head;
        /* The tail is cut back at twice its room, and a piece put into it is never longer than its room: so three times the room is
         * enough. */
        *h = (struct head_tail){
                .head = BUF_INIT(cap_bytes), .tail = BUF_INIT(3 * tail), .head_max = head, .tail_max = tail
        };
}

void head_tail_release(struct head_tail *h)
{
        buf_release(&h->head);
        buf_release(&h->tail);
}

/* A server may have told any number: the sum stays at its highest. */
static void add_omitted(struct head_tail *h, uint64_t n)
{
        if (__builtin_add_overflow(h->omitted_bytes, n, &h->omitted_bytes))
                h->omitted_bytes = UINT64_MAX;
}

static void forget(struct head_tail *h, size_t n)
{
        buf_consume(&h->tail, n);
        add_omitted(h, n);
}

void head_tail_put(struct head_tail *h, struct slice bytes)
{
        size_t n = h->is_head_over ? 0 : MIN(bytes.n, h->head_max - h->head.n);
        must(buf_append(&h->head, slice_from(bytes.p, n)) == 0);
        bytes = slice_from(bytes.p + n, bytes.n - n);
        if (bytes.n > h->tail_max) {
                forget(h, h->tail.n);
                add_omitted(h, bytes.n - h->tail_max);
                bytes = slice_from(bytes.p + bytes.n - h->tail_max, h->tail_max);
        }
        must(buf_append(&h->tail, bytes) == 0);
        if (h->tail.n >= 2 * h->tail_max)
                forget(h, h->tail.n - h->tail_max);
}

void head_tail_skip(struct head_tail *h, uint64_t missing_bytes)
{
        h->is_head_over = true;
        forget(h, h->tail.n);
        add_omitted(h, missing_bytes);
}

char *head_tail_take(struct head_tail *h, size_t *ret_n, size_t *ret_head_bytes, uint64_t *ret_omitted_bytes)
{
        if (h->tail.n > h->tail_max)
                forget(h, h->tail.n - h->tail_max);
        *ret_head_bytes = h->head.n;
        *ret_omitted_bytes = h->omitted_bytes;
        must(buf_append(&h->head, buf_slice(&h->tail)) == 0);
        *ret_n = h->head.n;
        char *all = buf_take(&h->head);
        size_t cap = h->head_max + h->tail_max;
        head_tail_release(h);
        head_tail_init(h, cap);
        return all;
}

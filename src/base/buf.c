/* buf: a growing array of bytes with a ceiling.
 *
 * The allocation is `allocated` + 1 (the NUL) + BUF_PADDING bytes. All empty bufs of all threads share buf_empty,
 * so nothing is ever stored there.
 */
#include "base/buf.h"

#include "base/mem.h"

#include <errno.h>

#define FIRST_BYTES 64

char buf_empty[BUF_PADDING + 1];

void buf_init(struct buf *b, size_t cap_bytes)
{
        *b = BUF_INIT(cap_bytes);
}

void buf_release(struct buf *b)
{
        if (b->allocated > 0)
                free(b->p);
        buf_init(b, b->cap);
}

static void set_length(struct buf *b, size_t n)
{
        b->n = n;
        if (b->allocated > 0)
                b->p[n] = '\0';
}

/* Makes `allocated` at least `need`, which is not above the ceiling. Returns false when there is no memory. */
static bool grow(struct buf *b, size_t need)
{
        size_t want, bytes;

        if (ckd_mul(&want, b->allocated, 2u))
                want = SIZE_MAX;
        want = MAX(want, FIRST_BYTES);
        want = MAX(want, need);
        want = MIN(want, b->cap);
        must(!ckd_add(&bytes, want, (size_t)BUF_PADDING + 1));

        char *p = realloc(b->allocated > 0 ? b->p : NULL, bytes);
        if (!p)
                return false;
        b->p = p;
        b->allocated = want;
        b->p[b->n] = '\0';
        return true;
}

int buf_reserve_or_fail(struct buf *b, size_t n, char **ret)
{
        size_t need;

        if (ckd_add(&need, b->n, n) || need > b->cap)
                return -ENOBUFS;
        if (need > b->allocated && !grow(b, need))
                return -ENOMEM;

        *ret = b->p + b->n;
        return 0;
}

int buf_reserve(struct buf *b, size_t n, char **ret)
{
        int r = buf_reserve_or_fail(b, n, ret);
        if (r == -ENOMEM)
                fatal("out of memory", 0);
        return r;
}

void buf_commit(struct buf *b, size_t n)
{
        must(n <= b->allocated - b->n);
        set_length(b, b->n + n);
}

int buf_append(struct buf *b, struct slice s)
{
        char *room;

        int r = buf_reserve(b, s.n, &room);
        if (r < 0)
                return r;

        if (s.n > 0)
                memcpy(room, s.p, s.n);
        set_length(b, b->n + s.n);
        return 0;
}

int buf_append_char(struct buf *b, char c)
{
        char *room;

        int r = buf_reserve(b, 1, &room);
        if (r < 0)
                return r;

        *room = c;
        set_length(b, b->n + 1);
        return 0;
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
        va_list again;
        char *room;

        /* The first try writes into the free room (the NUL has a byte of its own) and returns the length. */
        size_t free_bytes = b->allocated - b->n;
        va_copy(again, ap);
        int n = b->allocated > 0 ? vsnprintf(b->p + b->n, free_bytes + 1, fmt, again)
                                 : vsnprintf(NULL, 0, fmt, again);
        int r = n < 0 ? -errno : 0;
        va_end(again);

        if (r == 0 && (size_t)n > free_bytes) {
                r = buf_reserve(b, (size_t)n, &room);
                if (r == 0)
                        (void)vsnprintf(room, (size_t)n + 1, fmt,
                                        ap); /* the same arguments give the same length */
        }
        if (r < 0) {
                set_length(b, b->n);
                return r;
        }
        set_length(b, b->n + (size_t)n);
        return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        int r = buf_vprintf(b, fmt, ap);
        va_end(ap);
        return r;
}

void buf_consume(struct buf *b, size_t n)
{
        must(n <= b->n);
        if (n == 0)
                return;
        memmove(b->p, b->p + n, b->n - n);
        set_length(b, b->n - n);
}

void buf_truncate(struct buf *b, size_t n)
{
        must(n <= b->n);
        set_length(b, n);
}

char *buf_take(struct buf *b)
{
        char *p = b->allocated > 0 ? b->p : slice_dup(S(""));
        buf_init(b, b->cap);
        return p;
}

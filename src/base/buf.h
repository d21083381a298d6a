/* buf: bytes that grow, up to a ceiling given at birth.
 *
 * Invariants: `p` is never NULL (an empty buf points at a static NUL); p[n] is a NUL that is not counted; the bytes
 * may hold NULs; n <= cap always. Growing past the ceiling is -ENOBUFS and changes nothing: no unbounded buffer can
 * be written by accident. Memory that runs out aborts (base/mem.h).
 *
 * The allocation always has BUF_PADDING readable bytes behind n, so that vector code may load past the end; their
 * content means nothing.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

#include <stdarg.h>

#define BUF_PADDING 64

struct buf {
        char *p;
        size_t n;         /* bytes used */
        size_t allocated; /* bytes usable without growing; 0 while p is the static empty string */
        size_t cap;       /* ceiling on n */
};

extern char buf_empty[BUF_PADDING + 1];

#define BUF_INIT(cap_bytes) ((struct buf){ .p = buf_empty, .cap = (cap_bytes) })
void buf_init(struct buf *b, size_t cap_bytes);
void buf_release(struct buf *b); /* frees; b is as after buf_init with the same ceiling */
#define _buf_ CLEANUP(buf_release)

static inline struct slice buf_slice(const struct buf *b)
{
        return (struct slice){ b->p, b->n };
}

/* Makes room for `n` more bytes, at *ret; b->n is unchanged until buf_commit. */
NODISCARD int buf_reserve(struct buf *b, size_t n, char **ret);
/* As buf_reserve, for a size that the peer chose: without memory for it this returns -ENOMEM, and the program goes on. */
NODISCARD int buf_reserve_or_fail(struct buf *b, size_t n, char **ret);
void buf_commit(struct buf *b, size_t n);

NODISCARD int buf_append(struct buf *b, struct slice s);
NODISCARD int buf_append_char(struct buf *b, char c);
NODISCARD int buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
NODISCARD int buf_vprintf(struct buf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

/* Forgets the first `n` bytes, moving the rest to the front. */
void buf_consume(struct buf *b, size_t n);
void buf_truncate(struct buf *b, size_t n); /* n <= b->n */

/* Returns the bytes as a heap string with NUL, which the caller frees; b is empty afterwards. */
NODISCARD char *buf_take(struct buf *b);

/* slice: a pointer and a length: bytes that another object owns.
 *
 * Parsers take and return slices. A slice may hold NULs and need not be text. It never owns memory: a long-lived
 * object holds a `char *` or a `struct buf` instead, so that the type shows whether the bytes are owned.
 */
#pragma once

#include "base/compat.h"

#include "base/banned.h"

struct slice {
        const char *p;
        size_t n;
};

/* For literals: S("text"). For printf: "%.*s", SLICE(s) (texts over INT_MAX do not reach a printf). */
#define S(literal) ((struct slice){ "" literal, sizeof(literal) - 1 })
#define SLICE(s) (int)(s).n, (s).p

static inline struct slice slice_from(const void *p, size_t n)
{
        return (struct slice){ p, n };
}

static inline struct slice slice_from_str(const char *s)
{
        return (struct slice){ s, s ? strlen(s) : 0 };
}

static inline bool slice_eq(struct slice a, struct slice b)
{
        return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool slice_starts(struct slice s, struct slice prefix)
{
        return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

static inline bool slice_has_nul(struct slice s)
{
        return s.n > 0 && memchr(s.p, 0, s.n) != NULL;
}

/* Changes only ASCII letters, whatever the locale is. */
static inline char ascii_lower(char c)
{
        return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Returns the value of a hexadecimal digit; -1 for any other character. */
static inline int ascii_hex_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = ascii_lower(c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns the index of the name that the slice is equal to; `count` when there is none. */
NODISCARD size_t slice_find(struct slice s, const char *const *names, size_t count);

bool slice_eq_nocase(struct slice a, struct slice b);

/* Returns the slice without the ASCII blanks (space, tab, CR, LF) at either end. */
struct slice slice_trim(struct slice s);

/* Splits at the first `sep`: the part before is returned and *rest moves behind it. When there is no `sep` the
 * whole is returned and *rest becomes empty with p == NULL. */
struct slice slice_split(struct slice *rest, char sep);

/* Reads a number of decimal digits only, without sign and blanks. Returns 0, -EINVAL, or -ERANGE when it is above `max`. */
NODISCARD int slice_to_u64(struct slice s, uint64_t max, uint64_t *ret);

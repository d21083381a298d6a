/* url_text: what the parsers of file: URIs (base/uri.h) and of web URLs (wire/weburl.h) share of the URL Standard of the WHATWG.
 *
 * Pure functions.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

static inline bool url_is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static inline bool url_is_alpha(char c)
{
        return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
}

static inline bool url_is_slash(char c)
{
        return c == '/' || c == '\\';
}

/* Returns `s` without its first `n` bytes. */
static inline struct slice url_skip(struct slice s, size_t n)
{
        return slice_from(s.p + n, s.n - n);
}

/* Returns a copy without tabs and line ends anywhere, and without blanks and control characters at both ends. */
NODISCARD struct slice url_clean(struct arena *a, struct slice text);

/* Returns the length of the scheme in front of the first colon; 0 when there is none. */
size_t url_scheme_length(struct slice s);

/* Returns a copy in lower case. */
NODISCARD struct slice url_lower(struct arena *a, struct slice s);

/* Percent-decodes into `out`, which has room for s.n bytes; returns the number written. A percent sign that two hexadecimal
 * digits do not follow stands for itself. */
size_t url_percent_decode(char *out, struct slice s);

/* Returns 1 for the segment `.`, 2 for `..`, 0 for any other segment. Each dot may be written as `%2e`. */
unsigned url_count_dots(struct slice segment);

/* base64: standard alphabet, strict, fast.
 *
 * Encoding and decoding use AVX2 where the CPU has it (chosen once, at the first call), else a table. Decoding accepts
 * exactly what RFC 4648 section 4 makes: padding required, no blanks, trailing bits zero.
 * With BASE64_PLAIN it never asks the CPU what it has: in a virtual machine that takes long. It is for code that is loaded
 * into every program.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

#include <sys/types.h>

static inline size_t base64_encoded_size(size_t n)
{
        return (n / 3 + (n % 3 != 0)) * 4;
}

/* Returns an upper bound of the bytes that `n` characters decode to. */
static inline size_t base64_decoded_max(size_t n)
{
        return n / 4 * 3;
}

/* Writes base64_encoded_size(n) characters, no NUL; returns that number. */
size_t base64_encode(char *out, const void *in, size_t n);

/* Decodes `n` characters; `out` may be `in`. Returns the number of bytes, at most base64_decoded_max(n), and writes no more than
 * that maximum; or -1, and *ret_bad (may be NULL) is the offset of the first wrong character, or n when the length is wrong. */
ssize_t base64_decode(void *out, const char *in, size_t n, size_t *ret_bad);

/* Decode and encode the URL-safe alphabet without padding (for JWTs and opaque path URIs), without AVX2. base64url_decode returns
 * the number of bytes, or -1 when the text has another form. */
ssize_t base64url_decode(void *out, const char *in, size_t n);
size_t base64url_encode(char *out, const void *in, size_t n); /* returns the number of characters */

/* jsonw: writes JSON into a buf, without a tree.
 *
 * The caller writes values and keys in order; the writer adds commas, quotes and escapes. Single calls never fail: once the
 * buf's ceiling is met nothing more is written, and jsonw_end returns the error. Strings must be UTF-8; bytes
 * that are not are written as U+FFFD.
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

struct jsonw {
        struct buf *out;
        bool needs_comma;
        bool has_overflowed;
};

void jsonw_begin(struct jsonw *w, struct buf *out);
/* Returns 0, or -ENOBUFS when something did not fit; the buf then ends in the middle of the JSON text. */
NODISCARD int jsonw_end(struct jsonw *w);

void jsonw_object(struct jsonw *w);
void jsonw_object_end(struct jsonw *w);
void jsonw_array(struct jsonw *w);
void jsonw_array_end(struct jsonw *w);

/* `key` is written as it is: a literal of ours that needs no escape. */
void jsonw_key(struct jsonw *w, const char *key);

void jsonw_string(struct jsonw *w, struct slice s);
void jsonw_str(struct jsonw *w, const char *s); /* NULL gives null */
void jsonw_i64(struct jsonw *w, int64_t v);
void jsonw_u64(struct jsonw *w, uint64_t v);
void jsonw_bool(struct jsonw *w, bool v);
void jsonw_null(struct jsonw *w);
void jsonw_base64(struct jsonw *w, struct slice bytes); /* encoded straight into the buf */
void jsonw_raw(struct jsonw *w, struct slice json);     /* a complete JSON value */

/* Write a key and its value. */
void jsonw_member_string(struct jsonw *w, const char *key, struct slice s);
void jsonw_member_str(struct jsonw *w, const char *key, const char *s);
void jsonw_member_i64(struct jsonw *w, const char *key, int64_t v);
void jsonw_member_u64(struct jsonw *w, const char *key, uint64_t v);
void jsonw_member_bool(struct jsonw *w, const char *key, bool v);
void jsonw_member_null(struct jsonw *w, const char *key);

/* Returns an upper bound of the bytes that a string takes as JSON, quotes included. */
static inline size_t jsonw_string_max(struct slice s)
{
        return s.n * 6 + 2;
}

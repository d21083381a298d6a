/* json: a reader that copies nothing.
 *
 * json_parse checks a whole text (RFC 8259, UTF-8, no duplicate keys, bounded depth and number of values) and records
 * each value as a token in the arena; tokens point into the text, which must stay alive and have BUF_PADDING readable
 * bytes behind it (struct buf gives them; their content means nothing). Strings are unescaped only when asked for.
 *
 * A document is a flat array of tokens in reading order; an object is its token followed by key, value, key, value…;
 * `end` is the index behind the subtree, so that skipping costs nothing.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

#define JSON_DEPTH_MAX 128
#define JSON_VALUES_MAX 262144 /* keys do not count */

enum json_type { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
        uint8_t type;
        bool has_escape; /* for a string: the text needs unescaping */
        uint32_t end;    /* index of the token behind this subtree */
        uint32_t off;    /* where the text begins, for a string behind its quote */
        uint32_t len;
};

struct json_doc {
        const char *text;
        struct json *tokens; /* tokens[0] is the root */
        uint32_t count;
};

struct json_error {
        /* "trailing characters at line 1 column 40": the words that clients know from other servers. */
        char text[160];
};

/* Parses a text of at most 4 GiB - 1. Returns 0, or -EINVAL with *ret_error filled. */
NODISCARD int json_parse(struct arena *a, struct slice text, struct json_doc *ret,
                         struct json_error *ret_error);

static inline const struct json *json_root(const struct json_doc *d)
{
        return d->tokens;
}

/* Returns the value of a member, or NULL (also when `object` is NULL or no object). Keys with escapes are compared
 * unescaped. */
NODISCARD const struct json *json_get(const struct json_doc *d, const struct json *object, struct slice key);

/* Returns the text of a token as it stands (a string without its quotes, still escaped). */
static inline struct slice json_raw(const struct json_doc *d, const struct json *v)
{
        return slice_from(d->text + v->off, v->len);
}

/* Returns the bytes of a string: a slice of the text when nothing is escaped, else an unescaped copy in the arena. Lone
 * surrogates were refused by json_parse; \u0000 gives a NUL byte. */
NODISCARD struct slice json_string(struct arena *a, const struct json_doc *d, const struct json *v);

/* Read an integer without fraction or exponent. Return 0; -EINVAL when `v` is no such number; -ERANGE when it does not fit. */
NODISCARD int json_i64(const struct json_doc *d, const struct json *v, int64_t *ret);
NODISCARD int json_u64(const struct json_doc *d, const struct json *v, uint64_t *ret);

/* Iterates over the items of an array, or the keys of an object (the value is it + 1), in order. */
#define json_each(it, doc, container)                                                        \
        for (const struct json *it = (container) + 1; it < (doc)->tokens + (container)->end; \
             it = (doc)->tokens + ((container)->type == JSON_OBJECT ? it[1].end : it->end))

static inline size_t json_count(const struct json_doc *d, const struct json *container)
{
        size_t n = 0;
        json_each (it, d, container)
                n++;
        return n;
}

/* Returns the name of the type in error texts: "null", "boolean", "number", "string", "sequence" or "map". */
const char *json_type_name(const struct json *v);

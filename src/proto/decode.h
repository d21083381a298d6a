/* decode: params of a request, member by member, into C.
 *
 * A decoder walks the wanted members in declaration order; the first complaint stays and everything after it does
 * nothing, so that a decode function reads as a list and ends with `return decode_end(&d)`. Unknown members are ignored.
 * Slices point into the message or the request's arena.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "wire/json.h"
#include "wire/rpc.h"

struct decoder {
        struct arena *arena;
        const struct json_doc *doc;
        const struct json *object;
        struct err *err;
        bool has_failed;
        bool names_members; /* complaints begin with the member's name: see decode_own_members */
};

/* `params` must be an object; `what` names it in the complaint ("InitializeParams"). NULL counts as null. */
void decode_begin(struct decoder *d, struct arena *a, const struct json_doc *doc, const struct json *params,
                  const char *what, struct err *err);
NODISCARD int decode_end(struct decoder *d); /* 0, or -EINVAL with err: -32602 */
void decode_fail(struct decoder *d, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* An object within: when `outer` has failed, `inner` does nothing either; _end_inside passes its complaint on. */
void decode_begin_inside(struct decoder *inner, const struct decoder *outer, const struct json *value,
                         const char *what);
void decode_end_inside(struct decoder *outer, const struct decoder *inner);

/* From here on come members that the reference does not have: a wrong type is answered with the member's name. */
void decode_own_members(struct decoder *d);

/* Required members: absent is "missing field `x`". */
void decode_string(struct decoder *d, const char *key, struct slice *ret);
void decode_bool(struct decoder *d, const char *key, bool *ret);
void decode_strings(struct decoder *d, const char *key, struct slice **ret, size_t *ret_count);
void decode_path(struct decoder *d, const char *key, struct slice *ret); /* native or file: URI; base/uri.h */
void decode_base64(struct decoder *d, const char *key, struct slice *ret);
/* What is wrong with it: `bad` is what base64_decode gave. */
NODISCARD const char *base64_complaint(struct arena *a, struct slice text, size_t bad);
NODISCARD const struct json *decode_array(struct decoder *d, const char *key);    /* NULL when it failed */
NODISCARD const struct json *decode_required(struct decoder *d, const char *key); /* any type, also null */

struct string_pair {
        struct slice key, value;
};
void decode_string_map(struct decoder *d, const char *key, struct string_pair **ret, size_t *ret_count);

/* One of `names`: *ret is its index. */
void decode_variant(struct decoder *d, const char *key, const char *const *names, size_t count, size_t *ret);

/* Optional members: absent leaves *ret alone. _or_null: null counts as absent, otherwise it is a wrong type. */
void decode_optional_bool(struct decoder *d, const char *key, bool *ret);
void decode_optional_string(struct decoder *d, const char *key, struct slice *ret);
void decode_optional_string_or_null(struct decoder *d, const char *key,
                                    struct slice *ret); /* p == NULL: absent */
void decode_optional_strings(struct decoder *d, const char *key, struct slice **ret, size_t *ret_count);
NODISCARD const struct json *decode_optional_array(struct decoder *d, const char *key); /* or NULL */
void decode_optional_u64_or_null(struct decoder *d, const char *key, bool *ret_has, uint64_t *ret);

/* The value of a member, or NULL when it is absent or null (or the decoder has failed). */
NODISCARD const struct json *decode_peek(struct decoder *d, const char *key);

/* A value that is at hand, such as an item of an array. */
void decode_u64_value(struct decoder *d, const struct json *value, uint64_t *ret);
void decode_u16_value(struct decoder *d, const struct json *value, uint16_t *ret);
/* `what` is NULL, or names the member in the complaint about a path of another host or platform ("cwd URI"). */
void decode_path_value(struct decoder *d, const struct json *value, const char *what, struct slice *ret);

/* For methods without params: absent, null and {} pass. */
NODISCARD int decode_nothing(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err);

/* The text of a refused path, for -32602 (or other codes that the caller puts): PROTOCOL.md 9.1. `uri_result` is an
 * enum uri_result other than URI_OK, `detail` what uri_to_path gave with it. Returns -EINVAL. */
int path_refusal(struct err *err, int rpc, int uri_result, struct slice text, struct slice detail);

/* decode: reads the params of a request, member by member, into C structs.
 *
 * A decode function calls one function for each member, in the order of their declaration, and ends with
 * `return decode_end(&d)`. After the first error all further calls do nothing. Unknown members are ignored.
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
        bool names_members; /* error texts begin with the member's name: see decode_own_members */
};

/* Decodes the params of one method into the struct of that method, which is zeroed. Returns 0, or -EINVAL with err filled. */
typedef int params_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                          struct err *err);

/* Begins to decode `params`, which must be an object; NULL counts as null. `what` is its name in error texts
 * ("InitializeParams"). */
void decode_begin(struct decoder *d, struct arena *a, const struct json_doc *doc, const struct json *params,
                  const char *what, struct err *err);
NODISCARD int decode_end(struct decoder *d); /* returns 0, or -EINVAL with err: -32602 */
void decode_fail(struct decoder *d, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Decode an object inside of `outer`: when `outer` has failed, `inner` does nothing either; decode_end_inside passes the error
 * of `inner` on. */
void decode_begin_inside(struct decoder *inner, const struct decoder *outer, const struct json *value,
                         const char *what);
void decode_end_inside(struct decoder *outer, const struct decoder *inner);

/* Must be called before the members that only this server knows: error texts about the type of such a member then say its name. */
void decode_own_members(struct decoder *d);

/* Decode required members: an absent member is an error, "missing field `x`". */
void decode_string(struct decoder *d, const char *key, struct slice *ret);
void decode_bool(struct decoder *d, const char *key, bool *ret);
void decode_strings(struct decoder *d, const char *key, struct slice **ret, size_t *ret_count);
void decode_path(struct decoder *d, const char *key, struct slice *ret); /* a native path or a file: URI */
void decode_base64(struct decoder *d, const char *key, struct slice *ret);
/* Returns the error text for bad base64; `bad` is the offset that base64_decode returned. */
NODISCARD const char *base64_complaint(struct arena *a, struct slice text, size_t bad);
NODISCARD const struct json *decode_array(struct decoder *d, const char *key);    /* NULL after a failure */
NODISCARD const struct json *decode_required(struct decoder *d, const char *key); /* any type, also null */

struct string_pair {
        struct slice key, value;
};
void decode_string_map(struct decoder *d, const char *key, struct string_pair **ret, size_t *ret_count);

/* Decodes a member that must be one of `names`; *ret is its index there. */
void decode_variant(struct decoder *d, const char *key, const char *const *names, size_t count, size_t *ret);

/* Decode optional members: an absent member leaves *ret alone. With _or_null, null counts as absent; otherwise it is a wrong
 * type. */
void decode_optional_bool(struct decoder *d, const char *key, bool *ret);
void decode_optional_string(struct decoder *d, const char *key, struct slice *ret);
void decode_optional_string_or_null(struct decoder *d, const char *key,
                                    struct slice *ret); /* p == NULL: absent */
void decode_optional_strings(struct decoder *d, const char *key, struct slice **ret, size_t *ret_count);
NODISCARD const struct json *decode_optional_array(struct decoder *d, const char *key); /* NULL: absent */
void decode_optional_u64_or_null(struct decoder *d, const char *key, bool *ret_has, uint64_t *ret);

/* Returns the value of a member, or NULL when the member is absent or null, or when the decoder has failed. */
NODISCARD const struct json *decode_peek(struct decoder *d, const char *key);

/* Decode a value that the caller has found already, such as an item of an array. */
void decode_strings_value(struct decoder *d, const struct json *value, struct slice **ret, size_t *ret_count);
void decode_variant_value(struct decoder *d, const struct json *value, const char *const *names, size_t count,
                          size_t *ret);
void decode_u64_value(struct decoder *d, const struct json *value, uint64_t *ret);
void decode_u16_value(struct decoder *d, const struct json *value, uint16_t *ret);
/* Decodes a path. `what` is its name in the error text about a path of another host or platform ("cwd URI"), or NULL. */
void decode_path_value(struct decoder *d, const struct json *value, const char *what, struct slice *ret);

/* Decodes the member `unordered`, which all file requests have beside their own members; absent and null mean false. Returns 0, or
 * -EINVAL with err: -32602. */
NODISCARD int decode_unordered(struct arena *a, const struct json_doc *doc, const struct json *params,
                               bool *ret, struct err *err);

/* Decodes the params of methods that have none: absent params, null and {} are accepted. */
NODISCARD params_decode decode_nothing;

/* Fills err with the text for a refused path, as clients know it, and the code `rpc`. `uri_result` is an enum uri_result other
 * than URI_OK, and `detail` is what uri_to_path gave with it. Returns -EINVAL. */
int path_refusal(struct err *err, int rpc, int uri_result, struct slice text, struct slice detail);

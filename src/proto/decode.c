/* decode: reads the params of a request, member by member, into C structs.
 *
 * The error texts are those of the reference server where that is cheap: a missing member is named exactly, other texts say which
 * type came and which was expected. Only strings with escapes are copied out of the message, and what an error text repeats
 * of the message is cut to a bounded length.
 */
#include "proto/decode.h"

#include "base/base64.h"
#include "base/uri.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>

#define ECHO_BYTES 120 /* how much of a string of the client is shown in an error about its type */

void decode_begin(struct decoder *d, struct arena *a, const struct json_doc *doc, const struct json *params,
                  const char *what, struct err *err)
{
        struct decoder outer = { .arena = a, .doc = doc, .err = err };

        decode_begin_inside(d, &outer, params, what);
}

int decode_end(struct decoder *d)
{
        return d->has_failed ? -EINVAL : 0;
}

/* --- error texts -------------------------------------------------------------------------------------------------- */

PRINTF_LIKE(3, 0)
static void fail(struct decoder *d, const char *key, const char *fmt, va_list ap)
{
        char text[512];

        if (d->has_failed)
                return;
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        (void)err_set(d->err, RPC_INVALID_PARAMS, -EINVAL, "%s", text);
        if (d->names_members && key)
                (void)err_wrap(d->err, "%s", key);
        d->has_failed = true;
}

void decode_fail(struct decoder *d, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        fail(d, NULL, fmt, ap);
        va_end(ap);
}

PRINTF_LIKE(3, 4)
static void fail_member(struct decoder *d, const char *key, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        fail(d, key, fmt, ap);
        va_end(ap);
}

/* Returns the beginning of a text, at most `max` bytes in whole characters. */
static struct slice clip(struct slice s, size_t max)
{
        size_t n = 0;

        while (n < s.n) {
                size_t k = MAX(utf8_sequence(s.p + n, s.n - n), (size_t)1);
                if (n + k > max)
                        break;
                n += k;
        }
        return slice_from(s.p, n);
}

/* Fails because `v` has the wrong type. `key` is NULL for an item of an array and for the params themselves. */
static void fail_type(struct decoder *d, const char *key, const struct json *v, const char *expected)
{
        if (v && v->type == JSON_STRING) {
                struct slice raw = json_raw(d->doc, v), head = clip(raw, ECHO_BYTES);
                fail_member(d, key, "invalid type: string \"%.*s%s\", expected %s", SLICE(head),
                            head.n < raw.n ? "…" : "", expected);
                return;
        }
        if (v && (v->type == JSON_TRUE || v->type == JSON_FALSE)) {
                fail_member(d, key, "invalid type: boolean `%s`, expected %s",
                            v->type == JSON_TRUE ? "true" : "false", expected);
                return;
        }
        fail_member(d, key, "invalid type: %s, expected %s", v ? json_type_name(v) : "null", expected);
}

static void fail_struct(struct decoder *d, const struct json *v, const char *what)
{
        char expected[96];

        (void)snprintf(expected, sizeof(expected), "struct %s", what);
        fail_type(d, NULL, v, expected);
}

/* --- objects and their members ------------------------------------------------------------------------------------ */

void decode_begin_inside(struct decoder *inner, const struct decoder *outer, const struct json *value,
                         const char *what)
{
        *inner = *outer;
        inner->object = value;
        if (!value || value->type != JSON_OBJECT)
                fail_struct(inner, value, what);
}

void decode_end_inside(struct decoder *outer, const struct decoder *inner)
{
        outer->has_failed |= inner->has_failed;
}

void decode_own_members(struct decoder *d)
{
        d->names_members = true;
}

/* Returns a member of any type, also null; NULL when the member is absent or the decoder has failed. */
static const struct json *find(const struct decoder *d, const char *key)
{
        return d->has_failed ? NULL : json_get(d->doc, d->object, slice_from_str(key));
}

const struct json *decode_peek(struct decoder *d, const char *key)
{
        const struct json *v = find(d, key);

        return v && v->type != JSON_NULL ? v : NULL;
}

const struct json *decode_required(struct decoder *d, const char *key)
{
        const struct json *v = find(d, key);

        if (!v)
                decode_fail(d, "missing field `%s`", key);
        return v;
}

/* --- decoding values ---------------------------------------------------------------------------------------------- */

/* The functions for strings, bools and arrays do nothing when `v` is NULL: the member is absent, or the decoder has failed. */

static void take_string(struct decoder *d, const char *key, const struct json *v, struct slice *ret)
{
        if (v && v->type != JSON_STRING)
                fail_type(d, key, v, "a string");
        else if (v)
                *ret = json_string(d->arena, d->doc, v);
}

static void take_bool(struct decoder *d, const char *key, const struct json *v, bool *ret)
{
        if (v && v->type != JSON_TRUE && v->type != JSON_FALSE)
                fail_type(d, key, v, "a boolean");
        else if (v)
                *ret = v->type == JSON_TRUE;
}

static void take_strings(struct decoder *d, const char *key, const struct json *v, struct slice **ret,
                         size_t *ret_count)
{
        if (!v)
                return;
        if (v->type != JSON_ARRAY) {
                fail_type(d, key, v, "a sequence");
                return;
        }

        /* `max` counts the tokens below the array: one for each string, and more only where an item is refused. */
        size_t max = (size_t)(d->doc->tokens + v->end - (v + 1)), n = 0;
        struct slice *list = arena_alloc(d->arena, MAX(max, (size_t)1) * sizeof(*list));
        json_each (it, d->doc, v) {
                take_string(d, key, it, &list[n++]);
                if (d->has_failed)
                        return;
        }
        *ret = list;
        *ret_count = n;
}

static void take_u64(struct decoder *d, const char *key, const struct json *v, uint64_t *ret)
{
        if (v->type != JSON_NUMBER)
                fail_type(d, key, v, "u64");
        else if (json_u64(d->doc, v, ret) < 0)
                fail_member(d, key, "invalid number");
}

void decode_u64_value(struct decoder *d, const struct json *value, uint64_t *ret)
{
        take_u64(d, NULL, value, ret);
}

void decode_u16_value(struct decoder *d, const struct json *value, uint16_t *ret)
{
        uint64_t number;

        if (value->type != JSON_NUMBER)
                fail_type(d, NULL, value, "u16");
        else if (json_u64(d->doc, value, &number) < 0 || number > UINT16_MAX)
                decode_fail(d, "invalid number");
        else
                *ret = (uint16_t)number;
}

void decode_path_value(struct decoder *d, const struct json *value, const char *what, struct slice *ret)
{
        struct slice text = { 0 }, path = { 0 }, detail = { 0 };

        if (!d->has_failed)
                take_string(d, NULL, value, &text);
        if (d->has_failed)
                return;

        enum uri_result r = uri_to_path(d->arena, text, &path, &detail);
        if (r != URI_OK) {
                (void)path_refusal(d->err, RPC_INVALID_PARAMS, (int)r, text, detail);
                if (r == URI_FOREIGN && what)
                        (void)err_wrap(d->err, "%s `%.*s` is not valid on this exec-server host", what,
                                       SLICE(text));
                d->has_failed = true;
                return;
        }
        *ret = path;
}

/* --- decoding members --------------------------------------------------------------------------------------------- */

void decode_string(struct decoder *d, const char *key, struct slice *ret)
{
        take_string(d, key, decode_required(d, key), ret);
}

void decode_bool(struct decoder *d, const char *key, bool *ret)
{
        take_bool(d, key, decode_required(d, key), ret);
}

void decode_strings(struct decoder *d, const char *key, struct slice **ret, size_t *ret_count)
{
        take_strings(d, key, decode_required(d, key), ret, ret_count);
}

void decode_strings_value(struct decoder *d, const struct json *value, struct slice **ret, size_t *ret_count)
{
        if (!d->has_failed)
                take_strings(d, NULL, value, ret, ret_count);
}

void decode_path(struct decoder *d, const char *key, struct slice *ret)
{
        const struct json *v = decode_required(d, key);

        if (v)
                decode_path_value(d, v, NULL, ret);
}

static const struct json *take_array(struct decoder *d, const char *key, const struct json *v)
{
        if (v && v->type != JSON_ARRAY) {
                fail_type(d, key, v, "a sequence");
                return NULL;
        }
        return v;
}

const struct json *decode_array(struct decoder *d, const char *key)
{
        return take_array(d, key, decode_required(d, key));
}

const struct json *decode_optional_array(struct decoder *d, const char *key)
{
        return take_array(d, key, find(d, key));
}

const char *base64_complaint(struct arena *a, struct slice text, size_t bad)
{
        if (bad == text.n)
                return text.n % 4 == 1 ? arena_printf(a, "Invalid input length: %zu", text.n)
                                       : "Invalid padding";

        /* When the character is in the alphabet, the error is that its unused bits are not zero. */
        unsigned char c = (unsigned char)text.p[bad];
        bool is_in_alphabet = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                              c == '+' || c == '/';
        return arena_printf(a, "Invalid %ssymbol %u, offset %zu.", is_in_alphabet ? "last " : "", c, bad);
}

void decode_base64(struct decoder *d, const char *key, struct slice *ret)
{
        struct slice text = { 0 };
        size_t bad;

        decode_string(d, key, &text);
        if (d->has_failed)
                return;

        char *bytes = arena_alloc(d->arena, MAX(base64_decoded_max(text.n), (size_t)1));
        ssize_t n = base64_decode(bytes, text.p, text.n, &bad);
        if (n >= 0)
                *ret = slice_from(bytes, (size_t)n);
        else
                fail_member(d, key, "%s", base64_complaint(d->arena, text, bad));
}

void decode_string_map(struct decoder *d, const char *key, struct string_pair **ret, size_t *ret_count)
{
        const struct json *v = decode_required(d, key);

        if (!v)
                return;
        if (v->type != JSON_OBJECT) {
                fail_type(d, key, v, "a map");
                return;
        }

        size_t max = (size_t)(d->doc->tokens + v->end - (v + 1)) / 2, n = 0;
        struct string_pair *list = arena_alloc(d->arena, MAX(max, (size_t)1) * sizeof(*list));
        json_each (it, d->doc, v) {
                list[n].key = json_string(d->arena, d->doc, it);
                take_string(d, key, it + 1, &list[n++].value);
                if (d->has_failed)
                        return;
        }
        *ret = list;
        *ret_count = n;
}

static void fail_variant(struct decoder *d, const char *key, struct slice got, const char *const *names,
                         size_t count)
{
        char expected[256] = "";
        size_t n = 0;

        for (size_t i = 0; i < count && n < sizeof(expected); i++) {
                const char *between = i == 0 ? "" : count == 2 ? " or " : ", ";
                n += (size_t)snprintf(expected + n, sizeof(expected) - n, "%s`%s`", between, names[i]);
        }
        struct slice head = clip(got, ECHO_BYTES);
        fail_member(d, key, "unknown variant `%.*s`, expected %s%s", SLICE(head), count > 2 ? "one of " : "",
                    expected);
}

static void take_variant(struct decoder *d, const char *key, const struct json *v, const char *const *names,
                         size_t count, size_t *ret)
{
        if (v->type != JSON_STRING) {
                fail_type(d, key, v, "string or map");
                return;
        }
        struct slice text = json_string(d->arena, d->doc, v);
        size_t i = slice_find(text, names, count);
        if (i == count)
                fail_variant(d, key, text, names, count);
        else
                *ret = i;
}

void decode_variant(struct decoder *d, const char *key, const char *const *names, size_t count, size_t *ret)
{
        const struct json *v = decode_required(d, key);

        if (v)
                take_variant(d, key, v, names, count, ret);
}

void decode_variant_value(struct decoder *d, const struct json *value, const char *const *names, size_t count,
                          size_t *ret)
{
        if (!d->has_failed)
                take_variant(d, NULL, value, names, count, ret);
}

void decode_optional_bool(struct decoder *d, const char *key, bool *ret)
{
        take_bool(d, key, find(d, key), ret);
}

void decode_optional_string(struct decoder *d, const char *key, struct slice *ret)
{
        take_string(d, key, find(d, key), ret);
}

void decode_optional_string_or_null(struct decoder *d, const char *key, struct slice *ret)
{
        take_string(d, key, decode_peek(d, key), ret);
}

void decode_optional_strings(struct decoder *d, const char *key, struct slice **ret, size_t *ret_count)
{
        take_strings(d, key, find(d, key), ret, ret_count);
}

void decode_optional_u64_or_null(struct decoder *d, const char *key, bool *ret_has, uint64_t *ret)
{
        const struct json *v = decode_peek(d, key);

        if (!v)
                return;
        take_u64(d, key, v, ret);
        *ret_has = !d->has_failed;
}

/* --- methods without params, and refused paths -------------------------------------------------------------------- */

int decode_unordered(struct arena *a, const struct json_doc *doc, const struct json *params, bool *ret,
                     struct err *err)
{
        struct decoder d;

        decode_begin(&d, a, doc, params, "FsParams", err);
        decode_own_members(&d);
        if (decode_peek(&d, "unordered"))
                decode_bool(&d, "unordered", ret);
        return decode_end(&d);
}

int decode_nothing(struct arena *a, const struct json_doc *doc, const struct json *params, UNUSED void *ret,
                   struct err *err)
{
        struct decoder d = { .arena = a, .doc = doc, .err = err };
        bool is_empty_object =
                params && params->type == JSON_OBJECT && doc->tokens + params->end == params + 1;

        if (params && params->type != JSON_NULL && !is_empty_object)
                fail_type(&d, NULL, params, "unit");
        return decode_end(&d);
}

int path_refusal(struct err *err, int rpc, int uri_result, struct slice text, struct slice detail)
{
        switch ((enum uri_result)uri_result) {
        case URI_NOT_ABSOLUTE:
                return err_set(err, rpc, -EINVAL, "path is not absolute: %.*s", SLICE(text));
        case URI_BAD_SCHEME:
                return err_set(err, rpc, -EINVAL, "unsupported path URI scheme `%.*s`", SLICE(detail));
        case URI_QUERY:
                return err_set(err, rpc, -EINVAL, "query parameters are not allowed in path URIs");
        case URI_FRAGMENT:
                return err_set(err, rpc, -EINVAL, "fragments are not allowed in path URIs");
        case URI_CREDENTIALS:
                return err_set(err, rpc, -EINVAL, "credentials are not allowed in path URIs");
        case URI_PORT:
                return err_set(err, rpc, -EINVAL, "ports are not allowed in path URIs");
        case URI_SLASH:
                return err_set(err, rpc, -EINVAL, "escaped slashes are not allowed in path URIs");
        case URI_MALFORMED:
                return err_set(err, rpc, -EINVAL, "invalid URI: %.*s", SLICE(text));
        case URI_OK:
        case URI_NUL:
        case URI_FOREIGN:
                break;
        }
        return err_set(err, rpc, -EINVAL, "'%.*s' is invalid on 'linux'", SLICE(text));
}

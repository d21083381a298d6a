/* fuzz_json: compares our parser with jansson: both accept or both refuse, and find the same values.
 *
 * Known differences: jansson refuses numbers beyond long long or double and NULs in keys, and overlooks a bare NUL
 * between tokens; we refuse deep nesting and too many values.
 */
/* jansson comes first and with other names, because some of its names are also ours. So its json_is_* macros cannot be used
 * here. */
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#define JSON_INTEGER JANSSON_INTEGER
#define JSON_REAL JANSSON_REAL
#define JSON_TRUE JANSSON_TRUE
#define JSON_FALSE JANSSON_FALSE
#define JSON_NULL JANSSON_NULL
#define json_string jansson_string
#include <jansson.h>
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
#undef JSON_INTEGER
#undef JSON_REAL
#undef JSON_TRUE
#undef JSON_FALSE
#undef JSON_NULL
#undef json_string

#include "base/buf.h"
#include "base/mem.h"
#include "wire/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(struct arena *a, const struct json_doc *d, const struct json *v, const json_t *their);

static void compare_object(struct arena *a, const struct json_doc *d, const struct json *v,
                           const json_t *their)
{
        size_t count = 0;

        must(json_typeof(their) == JANSSON_OBJECT);
        json_each (key, d, v) {
                char *name = arena_dup(a, json_string(a, d, key));

                compare(a, d, key + 1, json_object_get(their, name));
                must(json_get(d, v, slice_from_str(name)) == key + 1);
                count++;
        }
        must(count == json_object_size(their));
}

static void compare_array(struct arena *a, const struct json_doc *d, const struct json *v,
                          const json_t *their)
{
        size_t count = 0;

        must(json_typeof(their) == JANSSON_ARRAY);
        json_each (item, d, v)
                compare(a, d, item, json_array_get(their, count++));
        must(count == json_array_size(their));
}

static void compare_number(struct arena *a, const struct json_doc *d, const struct json *v,
                           const json_t *their)
{
        int64_t number;

        if (json_i64(d, v, &number) == 0)
                must(json_typeof(their) == JANSSON_INTEGER && json_integer_value(their) == number);
        else
                must(json_typeof(their) == JANSSON_REAL &&
                     json_real_value(their) == strtod(arena_dup(a, json_raw(d, v)), NULL));
}

static void compare(struct arena *a, const struct json_doc *d, const struct json *v, const json_t *their)
{
        must(their);
        switch (v->type) {
        case JSON_OBJECT:
                return compare_object(a, d, v, their);
        case JSON_ARRAY:
                return compare_array(a, d, v, their);
        case JSON_STRING:
                must(json_typeof(their) == JANSSON_STRING);
                must(slice_eq(json_string(a, d, v),
                              slice_from(json_string_value(their), json_string_length(their))));
                return;
        case JSON_NUMBER:
                return compare_number(a, d, v, their);
        case JSON_TRUE:
                return must(json_typeof(their) == JANSSON_TRUE);
        case JSON_FALSE:
                return must(json_typeof(their) == JANSSON_FALSE);
        default:
                must(json_typeof(their) == JANSSON_NULL);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        _free_ char *text = mem_alloc(
                size +
                BUF_PADDING); /* a copy of the exact size, so that the sanitizer reports a read beyond it */
        struct json_doc d;
        struct json_error error = { "" };
        json_error_t their_error;

        if (size > 0)
                memcpy(text, data, size);
        memset(text + size, size % 2 ? '"' : '}', BUF_PADDING);

        int r = json_parse(&a, slice_from(text, size), &d, &error);
        json_t *their = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                                   &their_error);
        if (r == 0 && their) {
                must(!slice_has_nul(slice_from(text, size)));
                compare(&a, &d, json_root(&d), their);
        } else if (r == 0) {
                enum json_error_code code = json_error_code(&their_error);

                must(code == json_error_numeric_overflow || code == json_error_null_byte_in_key);
        } else if (their) {
                struct slice why = slice_from_str(error.text);

                must(slice_starts(why, S("recursion limit exceeded")) ||
                     slice_starts(why, S("JSON-RPC message exceeds the limit")) ||
                     slice_has_nul(slice_from(text, size)));
        }
        json_decref(their);
        return 0;
}

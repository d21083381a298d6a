/* json_value: reading the tokens of a document that json_parse has accepted.
 *
 * json_parse has checked everything: a backslash begins a known escape, and surrogates come in pairs.
 */
#include "wire/json.h"

#include "base/utf8.h"
#include "wire/json_scan.h"

#include <errno.h>

/* Writes the bytes that the escape at `s` stands for, and returns their number. *ret_used is the length of the escape. */
static size_t unescape(const char *s, char ret[static 4], size_t *ret_used)
{
        static const char letters[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";

        if (s[1] != 'u') {
                ret[0] = bytes[strchr(letters, s[1]) - letters];
                *ret_used = 2;
                return 1;
        }

        uint32_t c = (uint32_t)json_hex4(s + 2);
        *ret_used = 6;
        if (json_is_surrogate((int)c)) {
                c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)json_hex4(s + 8) - 0xdc00);
                *ret_used = 12;
        }
        return utf8_encode(c, ret);
}

struct slice json_string(struct arena *a, const struct json_doc *d, const struct json *v)
{
        struct slice raw = json_raw(d, v);

        if (!v->has_escape)
                return raw;

        /* No escape is shorter than what it stands for. */
        char *out = arena_alloc(a, raw.n);
        size_t n = 0;
        while (raw.n > 0) {
                const char *slash = memchr(raw.p, '\\', raw.n);
                size_t run = slash ? (size_t)(slash - raw.p) : raw.n, used = 0;
                char bytes[4];

                memcpy(out + n, raw.p, run);
                n += run;
                if (slash) {
                        size_t k = unescape(slash, bytes, &used);
                        memcpy(out + n, bytes, k);
                        n += k;
                }
                raw = slice_from(raw.p + run + used, raw.n - run - used);
        }
        return slice_from(out, n);
}

/* Returns whether the escaped text `raw` is the string `key`. */
static bool is_escaped_eq(struct slice raw, struct slice key)
{
        while (raw.n > 0) {
                char bytes[4] = { raw.p[0] };
                size_t used = 1, k = raw.p[0] == '\\' ? unescape(raw.p, bytes, &used) : 1;

                if (key.n < k || memcmp(key.p, bytes, k) != 0)
                        return false;
                key = slice_from(key.p + k, key.n - k);
                raw = slice_from(raw.p + used, raw.n - used);
        }
        return key.n == 0;
}

const struct json *json_get(const struct json_doc *d, const struct json *object, struct slice key)
{
        if (!object || object->type != JSON_OBJECT)
                return NULL;
        json_each (it, d, object) {
                struct slice raw = json_raw(d, it);

                if (it->has_escape ? is_escaped_eq(raw, key) : slice_eq(raw, key))
                        return it + 1;
        }
        return NULL;
}

/* Splits an integer into sign and magnitude. */
static int integer_parts(const struct json_doc *d, const struct json *v, bool *ret_negative, uint64_t *ret)
{
        if (!v || v->type != JSON_NUMBER)
                return -EINVAL;

        struct slice digits = json_raw(d, v);
        *ret_negative = digits.p[0] == '-';
        if (*ret_negative)
                digits = slice_from(digits.p + 1, digits.n - 1);
        return slice_to_u64(digits, UINT64_MAX, ret);
}

int json_i64(const struct json_doc *d, const struct json *v, int64_t *ret)
{
        bool is_negative;
        uint64_t sum;
        int r = integer_parts(d, v, &is_negative, &sum);

        if (r < 0)
                return r;
        if (sum > (uint64_t)INT64_MAX + is_negative)
                return -ERANGE;
        *ret = is_negative ? (int64_t)-sum : (int64_t)sum;
        return 0;
}

int json_u64(const struct json_doc *d, const struct json *v, uint64_t *ret)
{
        bool is_negative;
        uint64_t sum;
        int r = integer_parts(d, v, &is_negative, &sum);

        if (r < 0)
                return r;
        if (is_negative && sum != 0)
                return -ERANGE;
        *ret = sum;
        return 0;
}

const char *json_type_name(const struct json *v)
{
        static const char *const names[] = {
                [JSON_NULL] = "null",     [JSON_FALSE] = "boolean", [JSON_TRUE] = "boolean",
                [JSON_NUMBER] = "number", [JSON_STRING] = "string", [JSON_ARRAY] = "sequence",
                [JSON_OBJECT] = "map",
        };

        return names[v->type];
}

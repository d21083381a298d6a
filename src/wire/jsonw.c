/* jsonw: writes JSON into a buf: commas, quotes and escapes.
 *
 * Every value goes through put_value, which writes the comma that is due; every byte goes through put or room, which note
 * an overflow once and swallow the rest. Strings are copied in runs that need no escape.
 */
#include "wire/jsonw.h"

#include "base/base64.h"
#include "base/utf8.h"
#include "wire/json_scan.h"

#include <errno.h>

static void put(struct jsonw *w, struct slice s)
{
        if (!w->has_overflowed && buf_append(w->out, s) < 0)
                w->has_overflowed = true;
}

/* Returns room for n bytes at the end of the output, or NULL after an overflow. */
static char *room(struct jsonw *w, size_t n)
{
        char *p;

        if (w->has_overflowed)
                return NULL;
        if (buf_reserve(w->out, n, &p) < 0) {
                w->has_overflowed = true;
                return NULL;
        }
        return p;
}

/* Writes the text of a value or key, after a comma where one is needed. */
static void put_value(struct jsonw *w, struct slice s)
{
        if (w->needs_comma)
                put(w, S(","));
        put(w, s);
        w->needs_comma = true;
}

void jsonw_begin(struct jsonw *w, struct buf *out)
{
        *w = (struct jsonw){ .out = out };
}

int jsonw_end(struct jsonw *w)
{
        return w->has_overflowed ? -ENOBUFS : 0;
}

void jsonw_object(struct jsonw *w)
{
        put_value(w, S("{"));
        w->needs_comma = false;
}

void jsonw_object_end(struct jsonw *w)
{
        put(w, S("}"));
        w->needs_comma = true;
}

void jsonw_array(struct jsonw *w)
{
        put_value(w, S("["));
        w->needs_comma = false;
}

void jsonw_array_end(struct jsonw *w)
{
        put(w, S("]"));
        w->needs_comma = true;
}

void jsonw_key(struct jsonw *w, const char *key)
{
        size_t n = strlen(key), at = 0;
        char *p = room(w, n + 3 + w->needs_comma);

        if (!p)
                return;
        if (w->needs_comma)
                p[at++] = ',';
        p[at++] = '"';
        memcpy(p + at, key, n);
        at += n;
        p[at++] = '"';
        p[at++] = ':';
        buf_commit(w->out, at);
        w->needs_comma = false;
}

/* Writes the first character of `s`, at which json_scan has stopped. A quote, a backslash or a control character is escaped, a
 * character of several bytes is copied, and a byte that is not UTF-8 becomes U+FFFD. Returns how many bytes of `s` that was. */
static size_t put_special(struct jsonw *w, struct slice s)
{
        static const char hex[] = "0123456789abcdef";
        unsigned char c = (unsigned char)s.p[0];
        char out[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

        if (c >= 0x80) {
                size_t k = utf8_sequence(s.p, s.n);

                put(w, k > 0 ? slice_from(s.p, k) : S("\xef\xbf\xbd"));
                return MAX(k, 1u);
        }

        switch (c) {
        case '"':
        case '\\':
                out[1] = (char)c;
                break;
        case '\b':
                out[1] = 'b';
                break;
        case '\f':
                out[1] = 'f';
                break;
        case '\n':
                out[1] = 'n';
                break;
        case '\r':
                out[1] = 'r';
                break;
        case '\t':
                out[1] = 't';
                break;
        default:
                put(w, slice_from(out, 6));
                return 1;
        }
        put(w, slice_from(out, 2));
        return 1;
}

void jsonw_string(struct jsonw *w, struct slice s)
{
        put_value(w, S("\""));
        for (size_t i = 0; i < s.n && !w->has_overflowed;) {
                size_t end = json_scan(s.p, i, s.n);

                put(w, slice_from(s.p + i, end - i));
                i = end;
                if (i < s.n)
                        i += put_special(w, slice_from(s.p + i, s.n - i));
        }
        put(w, S("\""));
}

void jsonw_str(struct jsonw *w, const char *s)
{
        if (!s)
                jsonw_null(w);
        else
                jsonw_string(w, slice_from_str(s));
}

static void put_number(struct jsonw *w, bool is_negative, uint64_t v)
{
        char text[21], *p = text + sizeof(text);

        do
                *--p = (char)('0' + v % 10);
        while ((v /= 10) != 0);
        if (is_negative)
                *--p = '-';
        put_value(w, slice_from(p, (size_t)(text + sizeof(text) - p)));
}

void jsonw_i64(struct jsonw *w, int64_t v)
{
        put_number(w, v < 0, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void jsonw_u64(struct jsonw *w, uint64_t v)
{
        put_number(w, false, v);
}

void jsonw_bool(struct jsonw *w, bool v)
{
        put_value(w, v ? S("true") : S("false"));
}

void jsonw_null(struct jsonw *w)
{
        put_value(w, S("null"));
}

void jsonw_base64(struct jsonw *w, struct slice bytes)
{
        size_t n;
        char *p;

        put_value(w, S("\""));
        if (bytes.n > SIZE_MAX / 2 || !(p = room(w, (n = base64_encoded_size(bytes.n)) + 1))) {
                w->has_overflowed = true;
                return;
        }
        n = base64_encode(p, bytes.p, bytes.n);
        p[n] = '"';
        buf_commit(w->out, n + 1);
}

void jsonw_raw(struct jsonw *w, struct slice json)
{
        put_value(w, json);
}

void jsonw_member_string(struct jsonw *w, const char *key, struct slice s)
{
        jsonw_key(w, key);
        jsonw_string(w, s);
}

void jsonw_member_str(struct jsonw *w, const char *key, const char *s)
{
        jsonw_key(w, key);
        jsonw_str(w, s);
}

void jsonw_member_i64(struct jsonw *w, const char *key, int64_t v)
{
        jsonw_key(w, key);
        jsonw_i64(w, v);
}

void jsonw_member_u64(struct jsonw *w, const char *key, uint64_t v)
{
        jsonw_key(w, key);
        jsonw_u64(w, v);
}

void jsonw_member_bool(struct jsonw *w, const char *key, bool v)
{
        jsonw_key(w, key);
        jsonw_bool(w, v);
}

void jsonw_member_null(struct jsonw *w, const char *key)
{
        jsonw_key(w, key);
        jsonw_null(w);
}

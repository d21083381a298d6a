/* json_test: which texts are accepted, which are refused and with which message, whatever the padding holds. */
#include "wire/json.h"

#include "base/buf.h"
#include "unit.h"
#include "wire/jsonw.h"

#include <errno.h>

/* Returns the text with padding that would mislead a parser that used it. */
static struct slice padded(struct arena *a, struct slice text, char garbage)
{
        char *p = arena_alloc(a, text.n + BUF_PADDING);

        if (text.n > 0)
                memcpy(p, text.p, text.n);
        memset(p + text.n, garbage, BUF_PADDING);
        return slice_from(p, text.n);
}

/* Parses the text with every kind of padding; all results must be the same. */
static int parse(struct arena *a, struct slice text, struct json_doc *ret, struct json_error *ret_error)
{
        static const char garbage[] = { '\0', '"', '}', ']', '\\', '0', 'e', ' ', ',', '\xff', '\x80' };
        struct json_error first_error = { 0 };
        int first = 0;

        for (size_t i = 0; i < sizeof(garbage); i++) {
                *ret_error = (struct json_error){ 0 };
                int r = json_parse(a, padded(a, text, garbage[i]), ret, ret_error);
                if (i == 0) {
                        first = r;
                        first_error = *ret_error;
                }
                eq_int(r, first);
                eq_str(ret_error->text, first_error.text);
        }
        return first;
}

static void dump_value(struct arena *a, const struct json_doc *d, const struct json *v, struct jsonw *w)
{
        switch (v->type) {
        case JSON_OBJECT:
                jsonw_object(w);
                json_each (key, d, v) {
                        jsonw_string(w, json_string(a, d, key));
                        w->needs_comma = false;
                        ok(buf_append_char(w->out, ':') == 0);
                        dump_value(a, d, key + 1, w);
                }
                jsonw_object_end(w);
                break;
        case JSON_ARRAY:
                jsonw_array(w);
                json_each (item, d, v)
                        dump_value(a, d, item, w);
                jsonw_array_end(w);
                break;
        case JSON_STRING:
                jsonw_string(w, json_string(a, d, v));
                break;
        default:
                jsonw_raw(w, json_raw(d, v));
        }
}

static void dump(struct arena *a, const struct json_doc *d, struct buf *out)
{
        struct jsonw w;

        jsonw_begin(&w, out);
        dump_value(a, d, json_root(d), &w);
        eq_int(jsonw_end(&w), 0);
}

static const struct {
        struct slice text;
        const char *seen; /* what is written back; NULL: the same text */
} good[] = {
        { S("null"), NULL },
        { S("true"), NULL },
        { S("false"), NULL },
        { S("0"), NULL },
        { S("-0"), NULL },
        { S("1e999"), NULL },
        { S("-12.5E+10"), NULL },
        { S("123456789012345678901234567890"), NULL },
        { S("\"\""), NULL },
        { S("[]"), NULL },
        { S("{}"), NULL },
        { S(" \t\r\n[ ]\n"), "[]" },
        { S("{ }"), "{}" },
        { S("{\"\":\"\"}"), NULL },
        { S("{\"a\":1,\"b\":[true,false,null,{\"c\":\"d\"}],\"e\":{}}"), NULL },
        { S(" { \"a\" : [ 1 , 2 ] , \"b\" : -0.5e-7 } "), "{\"a\":[1,2],\"b\":-0.5e-7}" },
        { S("[[[[[]]]],[[]]]"), NULL },
        { S("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\\"\\\\/\\b\\f\\n\\r\\t\"" },
        { S("\"\\u0000\\u001f\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\""),
          "\"\\u0000\\u001fA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        { S("\"\\ue000\\uffff\\ud7ff\\udbff\\udfff\""),
          "\"\xee\x80\x80\xef\xbf\xbf\xed\x9f\xbf\xf4\x8f\xbf\xbf\"" },
        { S("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\""), NULL },
        { S("{\"\\u0061\":1,\"\\u0062\":2,\"c\":3}"), "{\"a\":1,\"b\":2,\"c\":3}" },
        { S("{\"id\":1,\"method\":\"process/"
            "read\",\"params\":{\"processId\":\"p\",\"afterSeq\":0,\"waitMs\":5}}"),
          NULL },
        { S("[1,1,\"a\",\"a\",{\"a\":1},{\"a\":1}]"), NULL },
};

TEST(good_texts_give_their_values)
{
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                _arena_ struct arena a = ARENA_INIT;
                _buf_ struct buf out = BUF_INIT(1 << 16);
                struct json_doc d;
                struct json_error e;

                eq_int(parse(&a, good[i].text, &d, &e), 0);
                dump(&a, &d, &out);
                eq_slice(buf_slice(&out), good[i].seen ? slice_from_str(good[i].seen) : good[i].text);
                eq_int(json_root(&d)->end, d.count);
        }
}

TEST(every_truncation_of_a_good_text_is_refused_unless_it_is_a_number_or_blanks)
{
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                struct slice text = slice_trim(good[i].text);

                if (text.p[0] == '-' || (text.p[0] >= '0' && text.p[0] <= '9'))
                        continue;
                for (size_t n = 0; n < text.n; n++) {
                        _arena_ struct arena a = ARENA_INIT;
                        struct json_doc d;
                        struct json_error e;

                        eq_int(parse(&a, slice_from(text.p, n), &d, &e), -EINVAL);
                        assert_memory_equal(e.text, "EOF while parsing ", 18);
                }
        }
}

static const struct {
        struct slice text;
        const char *error;
} bad[] = {
        { S(""), "EOF while parsing a value at line 1 column 0" },
        { S("   "), "EOF while parsing a value at line 1 column 3" },
        { S("{"), "EOF while parsing an object at line 1 column 1" },
        { S("{\n"), "EOF while parsing an object at line 2 column 0" },
        { S("{\""), "EOF while parsing a string at line 1 column 2" },
        { S("{\"a\""), "EOF while parsing an object at line 1 column 4" },
        { S("{\"a\":"), "EOF while parsing a value at line 1 column 5" },
        { S("{\"a\":1"), "EOF while parsing an object at line 1 column 6" },
        { S("{\"a\":1\n\n"), "EOF while parsing an object at line 3 column 0" },
        { S("{\"a\":1,"), "EOF while parsing a value at line 1 column 7" },
        { S("{\"a\":1,}"), "trailing comma at line 1 column 8" },
        { S("{\"a\":1,,}"), "key must be a string at line 1 column 8" },
        { S("{\"a\":1 x"), "expected `,` or `}` at line 1 column 8" },
        { S("{\"a\":1]"), "expected `,` or `}` at line 1 column 7" },
        { S("{\"a\" 1}"), "expected `:` at line 1 column 6" },
        { S("{a:1}"), "key must be a string at line 1 column 2" },
        { S("{,}"), "key must be a string at line 1 column 2" },
        { S("{]"), "key must be a string at line 1 column 2" },
        { S("{\xff\xfe"), "key must be a string at line 1 column 2" },
        { S("{\"a\":}"), "expected value at line 1 column 6" },
        { S("{\"a\":\xff}"), "expected value at line 1 column 6" },
        { S("\n\n {\"a\":\n\n x"), "expected value at line 5 column 2" },
        { S("["), "EOF while parsing a list at line 1 column 1" },
        { S("[1"), "EOF while parsing a list at line 1 column 2" },
        { S("[1,"), "EOF while parsing a value at line 1 column 3" },
        { S("[1,]"), "trailing comma at line 1 column 4" },
        { S("[1 2]"), "expected `,` or `]` at line 1 column 4" },
        { S("[1}"), "expected `,` or `]` at line 1 column 3" },
        { S("[,]"), "expected value at line 1 column 2" },
        { S("[}"), "expected value at line 1 column 2" },
        { S("}"), "expected value at line 1 column 1" },
        { S("\xef\xbb\xbf{}"), "expected value at line 1 column 1" },
        { S("{} trailing"), "trailing characters at line 1 column 4" },
        { S("{}\n\n}"), "trailing characters at line 3 column 1" },
        { S("null\0"), "trailing characters at line 1 column 5" },
        { S("tru"), "EOF while parsing a value at line 1 column 3" },
        { S("trux"), "expected ident at line 1 column 4" },
        { S("nan"), "expected ident at line 1 column 2" },
        { S("falsE"), "expected ident at line 1 column 5" },
        { S("NaN"), "expected value at line 1 column 1" },
        { S("Infinity"), "expected value at line 1 column 1" },
        { S("'a'"), "expected value at line 1 column 1" },
        { S("[truex]"), "expected `,` or `]` at line 1 column 6" },
        { S("-"), "EOF while parsing a value at line 1 column 1" },
        { S("-x"), "invalid number at line 1 column 2" },
        { S("--1"), "invalid number at line 1 column 2" },
        { S("01"), "invalid number at line 1 column 2" },
        { S("-00"), "invalid number at line 1 column 3" },
        { S("1."), "EOF while parsing a value at line 1 column 2" },
        { S("1.x"), "invalid number at line 1 column 3" },
        { S("1.5e"), "EOF while parsing a value at line 1 column 4" },
        { S("1e+"), "EOF while parsing a value at line 1 column 3" },
        { S("1ex"), "invalid number at line 1 column 3" },
        { S("+1"), "expected value at line 1 column 1" },
        { S(".5"), "expected value at line 1 column 1" },
        { S("0x10"), "trailing characters at line 1 column 2" },
        { S("\"a"), "EOF while parsing a string at line 1 column 2" },
        { S("\"\\"), "EOF while parsing a string at line 1 column 2" },
        { S("\"\\u12"), "EOF while parsing a string at line 1 column 5" },
        { S("\"\\uzzzz\""), "invalid escape at line 1 column 7" },
        { S("\"\\x\""), "invalid escape at line 1 column 3" },
        { S("\"\\ud800\""), "unexpected end of hex escape at line 1 column 8" },
        { S("\"\\ud800"), "EOF while parsing a string at line 1 column 7" },
        { S("\"\\ud800\\"), "EOF while parsing a string at line 1 column 8" },
        { S("\"\\ud800\\n\""), "unexpected end of hex escape at line 1 column 9" },
        { S("\"\\ud800\\u0041\""), "lone leading surrogate in hex escape at line 1 column 13" },
        { S("\"\\ud800\\ud800\""), "lone leading surrogate in hex escape at line 1 column 13" },
        { S("\"\\udc00\""), "lone leading surrogate in hex escape at line 1 column 7" },
        { S("\"\x01\""),
          "control character (\\u0000-\\u001F) found while parsing a string at line 1 column 2" },
        { S("\"a\nb\""),
          "control character (\\u0000-\\u001F) found while parsing a string at line 2 column 0" },
        { S("\"\xff\""), "invalid unicode code point at line 1 column 3" },
        { S("\"a\xc3\""), "invalid unicode code point at line 1 column 4" },
        { S("\"a\xc3"), "EOF while parsing a string at line 1 column 3" },
        { S("\"\xed\xa0\x80\""), "invalid unicode code point at line 1 column 5" },
        { S("\"\xc0\x80\""), "invalid unicode code point at line 1 column 4" },
        { S("\"\xf4\x90\x80\x80\""), "invalid unicode code point at line 1 column 6" },
        { S("\"\xff\x01\""),
          "control character (\\u0000-\\u001F) found while parsing a string at line 1 column 3" },
        { S("{\"id\":4,\"id\":5}"), "duplicate JSON object key `id` at line 1 column 12" },
        { S("{\"a\":1,\"a\""), "duplicate JSON object key `a` at line 1 column 10" },
        { S("{\"\":1,\"\":2}"), "duplicate JSON object key `` at line 1 column 8" },
        { S("[{\"x\":{\"b\":1,\"a\":[{}],\"b\":2}}]"), "duplicate JSON object key `b` at line 1 column 25" },
        { S("{\"a\":1,\"\\u0061\":2}"), "duplicate JSON object key `a` at line 1 column 15" },
        { S("{\"\\u0061\":1,\"a\":2}"), "duplicate JSON object key `a` at line 1 column 15" },
        { S("{\"\xc3\xa9\":1,\"\\u00e9\":2}"), "duplicate JSON object key `\xc3\xa9` at line 1 column 16" },
};

TEST(bad_texts_are_refused_in_the_words_that_clients_know)
{
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct json_doc d;
                struct json_error e;

                eq_int(parse(&a, bad[i].text, &d, &e), -EINVAL);
                eq_str(e.text, bad[i].error);
        }
}

TEST(only_bytes_that_may_stand_in_a_string_are_accepted_at_any_place)
{
        char text[202];

        for (size_t len = 1; len <= 200; len += len < 80 ? 1 : 7) {
                for (size_t at = 0; at < len; at += 1 + len / 40) {
                        for (int c = 0; c < 256; c++) {
                                _arena_ struct arena a = ARENA_INIT;
                                struct json_doc d;
                                struct json_error e;

                                memset(text, 'a', len + 2);
                                text[0] = text[len + 1] = '"';
                                text[at + 1] = (char)c;
                                int r = json_parse(&a, padded(&a, slice_from(text, len + 2), '"'), &d, &e);
                                bool is_good = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
                                eq_int(r, is_good ? 0 : -EINVAL);
                                if (is_good)
                                        eq_slice(json_raw(&d, json_root(&d)), slice_from(text + 1, len));
                        }
                }
        }
}

/* Returns a text of `depth` containers, one inside the other. */
static struct slice nested(struct arena *a, size_t depth, bool is_object)
{
        struct slice open = is_object ? S("{\"a\":") : S("["), close = is_object ? S("}") : S("]");
        char *text = arena_alloc(a, depth * 6 + 1), *p = text;

        for (size_t i = 0; i < depth; i++)
                p = mempcpy(p, open.p, open.n);
        *p++ = '1';
        for (size_t i = 0; i < depth; i++)
                p = mempcpy(p, close.p, close.n);
        return slice_from(text, (size_t)(p - text));
}

TEST(nesting_ends_below_the_recursion_limit)
{
        for (int is_object = 0; is_object < 2; is_object++) {
                _arena_ struct arena a = ARENA_INIT;
                struct json_doc d;
                struct json_error e;

                eq_int(parse(&a, nested(&a, JSON_DEPTH_MAX - 1, is_object), &d, &e), 0);
                eq_int(parse(&a, nested(&a, JSON_DEPTH_MAX, is_object), &d, &e), -EINVAL);
                eq_str(e.text, is_object ? "recursion limit exceeded at line 1 column 636"
                                         : "recursion limit exceeded at line 1 column 128");
        }
}

/* Returns an array of `count` zeros, or an object of `count` members {"k0":0,"k1":0,…}. */
static struct slice many(struct arena *a, size_t count, bool is_object)
{
        char *text = arena_alloc(a, count * 16 + 2 + BUF_PADDING), *p = text;

        *p++ = is_object ? '{' : '[';
        for (size_t i = 0; i < count; i++) {
                if (i > 0)
                        *p++ = ',';
                if (is_object)
                        p += snprintf(p, 14, "\"k%zu\":", i);
                *p++ = '0';
        }
        *p++ = is_object ? '}' : ']';
        memset(p, '"', BUF_PADDING);
        return slice_from(text, (size_t)(p - text));
}

TEST(values_are_counted_and_keys_are_not)
{
        for (int is_object = 0; is_object < 2; is_object++) {
                _arena_ struct arena a = ARENA_INIT;
                struct json_doc d;
                struct json_error e;

                eq_int(json_parse(&a, many(&a, JSON_VALUES_MAX - 1, is_object), &d, &e), 0);
                eq_int(d.count, is_object ? 2 * JSON_VALUES_MAX - 1 : JSON_VALUES_MAX);
                eq_int(json_parse(&a, many(&a, JSON_VALUES_MAX, is_object), &d, &e), -EINVAL);
                if (!is_object)
                        eq_str(e.text, "JSON-RPC message exceeds the limit of 262144 JSON values at line 1 "
                                       "column 524287");
        }
}

TEST(a_duplicate_is_found_among_any_number_of_keys)
{
        for (size_t count = 2; count < 100000; count += 1 + count / 3) {
                for (size_t first = 0; first < count - 1; first += 1 + count / 4) {
                        _arena_ struct arena a = ARENA_INIT;
                        struct json_doc d;
                        struct json_error e;
                        struct slice text = many(&a, count, true);
                        char key[16], last[16], expected[100];

                        eq_int(json_parse(&a, text, &d, &e), 0);

                        /* The last key is replaced by an earlier key, which may be shorter; blanks fill the rest. */
                        int n = snprintf(key, sizeof(key), "\"k%zu\":0", first);
                        int m = snprintf(last, sizeof(last), "\"k%zu\":0", count - 1);
                        char *at = (char *)(uintptr_t)text.p + text.n - 1 - m;
                        memset(at, ' ', (size_t)m);
                        memcpy(at, key, (size_t)n);
                        (void)snprintf(expected, sizeof(expected),
                                       "duplicate JSON object key `k%zu` at line 1 column %zu", first,
                                       (size_t)(at - text.p) + (size_t)n - 2);
                        eq_int(json_parse(&a, text, &d, &e), -EINVAL);
                        eq_str(e.text, expected);
                }
        }
}

TEST(a_long_duplicate_key_is_cut_in_the_error_text)
{
        _arena_ struct arena a = ARENA_INIT;
        char *text = arena_alloc(&a, 1000), *p = text;
        struct json_doc d;
        struct json_error e;

        *p++ = '{';
        for (int i = 0; i < 2; i++) {
                *p++ = '"';
                for (int k = 0; k < 100; k++)
                        p = mempcpy(p, "\xe2\x82\xac", 3);
                p = mempcpy(p, i == 0 ? "\":1," : "\":1}", 4);
        }
        eq_int(parse(&a, slice_from(text, (size_t)(p - text)), &d, &e), -EINVAL);
        assert_non_null(strstr(e.text, "\xe2\x82\xac\xe2\x80\xa6` at line 1 column 608"));
}

TEST(members_are_found_by_their_unescaped_key)
{
        _arena_ struct arena a = ARENA_INIT;
        struct json_doc d;
        struct json_error e;

        eq_int(parse(&a, S("{\"a\":1,\"\\u0062\\n\":[{\"x\":0}],\"ab\":\"v\",\"\\ud83d\\ude00\":null}"), &d,
                     &e),
               0);
        eq_slice(json_raw(&d, json_get(&d, json_root(&d), S("a"))), S("1"));
        eq_slice(json_raw(&d, json_get(&d, json_root(&d), S("ab"))), S("v"));
        const struct json *array = json_get(&d, json_root(&d), S("b\n"));
        assert_non_null(array);
        eq_int(array->type, JSON_ARRAY);
        eq_slice(json_raw(&d, array), S("[{\"x\":0}]"));
        assert_non_null(json_get(&d, json_root(&d), S("\xf0\x9f\x98\x80")));
        assert_null(json_get(&d, json_root(&d), S("b")));
        assert_null(json_get(&d, json_root(&d), S("b\nc")));
        assert_null(json_get(&d, json_root(&d), S("x")));
        assert_null(json_get(&d, json_root(&d), S("")));
        assert_null(json_get(&d, array, S("x")));
        assert_null(json_get(&d, NULL, S("x")));
}

TEST(integers_are_read_when_they_fit)
{
        static const struct {
                struct slice text;
                int i64, u64;
                int64_t number;
        } cases[] = {
                { S("0"), 0, 0, 0 },
                { S("-0"), 0, 0, 0 },
                { S("42"), 0, 0, 42 },
                { S("-1"), 0, -ERANGE, -1 },
                { S("9223372036854775807"), 0, 0, INT64_MAX },
                { S("9223372036854775808"), -ERANGE, 0, 0 },
                { S("18446744073709551615"), -ERANGE, 0, 0 },
                { S("18446744073709551616"), -ERANGE, -ERANGE, 0 },
                { S("99999999999999999999999"), -ERANGE, -ERANGE, 0 },
                { S("-9223372036854775808"), 0, -ERANGE, INT64_MIN },
                { S("-9223372036854775809"), -ERANGE, -ERANGE, 0 },
                { S("1.0"), -EINVAL, -EINVAL, 0 },
                { S("1e2"), -EINVAL, -EINVAL, 0 },
                { S("99999999999999999999999.5"), -EINVAL, -EINVAL, 0 },
                { S("\"1\""), -EINVAL, -EINVAL, 0 },
                { S("null"), -EINVAL, -EINVAL, 0 },
                { S("[1]"), -EINVAL, -EINVAL, 0 },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct json_doc d;
                struct json_error e;
                int64_t s;
                uint64_t u;

                eq_int(parse(&a, cases[i].text, &d, &e), 0);
                eq_int(json_i64(&d, json_root(&d), &s), cases[i].i64);
                if (cases[i].i64 == 0)
                        eq_u64(s, cases[i].number);
                eq_int(json_u64(&d, json_root(&d), &u), cases[i].u64);
                if (cases[i].u64 == 0 && cases[i].i64 == 0)
                        eq_u64(u, cases[i].number);
        }
}

TEST(plain_strings_are_not_copied)
{
        _arena_ struct arena a = ARENA_INIT;
        struct json_doc d;
        struct json_error e;
        struct slice text = padded(&a, S("[\"plain\",\"esc\\u0061ped\\\\\"]"), '"');

        eq_int(json_parse(&a, text, &d, &e), 0);
        struct slice plain = json_string(&a, &d, &d.tokens[1]), escaped = json_string(&a, &d, &d.tokens[2]);
        ok(plain.p == text.p + 2);
        eq_slice(plain, S("plain"));
        eq_slice(escaped, S("escaped\\"));
}

TEST(types_have_the_names_of_error_texts)
{
        _arena_ struct arena a = ARENA_INIT;
        struct json_doc d;
        struct json_error e;
        static const char *const names[] = { "null",   "boolean",  "boolean", "number",
                                             "string", "sequence", "map" };
        size_t i = 0;

        eq_int(parse(&a, S("[null,true,false,1,\"s\",[],{}]"), &d, &e), 0);
        json_each (item, &d, json_root(&d))
                eq_str(json_type_name(item), names[i++]);
        eq_int(i, ARRAY_LEN(names));
}

TEST(items_and_members_are_counted_without_those_inside_of_them)
{
        static const struct {
                const char *text;
                size_t count;
        } rows[] = {
                { "[]", 0 },
                { "[1,[2,3],{}]", 3 },
                { "{}", 0 },
                { "{\"a\":[1,2],\"b\":{\"c\":1}}", 2 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                _buf_ struct buf text = BUF_INIT(1024);
                struct json_error error;
                struct json_doc doc;
                ok(buf_append(&text, slice_from_str(rows[i].text)) == 0);
                eq_int(json_parse(&a, buf_slice(&text), &doc, &error), 0);
                eq_u64(json_count(&doc, json_root(&doc)), rows[i].count);
        }
}

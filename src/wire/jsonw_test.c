/* jsonw_test: commas, escapes, ceilings. */
#include "wire/jsonw.h"

#include "unit.h"
#include "wire/json.h"

#include <errno.h>

TEST(commas_stand_between_values_and_members_only)
{
        _buf_ struct buf out = BUF_INIT(1000);
        struct jsonw w;

        jsonw_begin(&w, &out);
        jsonw_object(&w);
        jsonw_member_i64(&w, "a", -1);
        jsonw_key(&w, "b");
        jsonw_array(&w);
        jsonw_array(&w);
        jsonw_array_end(&w);
        jsonw_object(&w);
        jsonw_object_end(&w);
        jsonw_bool(&w, true);
        jsonw_null(&w);
        jsonw_str(&w, NULL);
        jsonw_str(&w, "x");
        jsonw_raw(&w, S("{\"r\":1}"));
        jsonw_base64(&w, S("hello"));
        jsonw_base64(&w, S(""));
        jsonw_array_end(&w);
        jsonw_member_string(&w, "c", S("y"));
        jsonw_member_str(&w, "d", NULL);
        jsonw_member_u64(&w, "e", UINT64_MAX);
        jsonw_member_bool(&w, "f", false);
        jsonw_member_null(&w, "g");
        jsonw_object_end(&w);
        eq_int(jsonw_end(&w), 0);
        eq_str(out.p, "{\"a\":-1,\"b\":[[],{},true,null,null,\"x\",{\"r\":1},\"aGVsbG8=\",\"\"],\"c\":\"y\","
                      "\"d\":null,\"e\":18446744073709551615,\"f\":false,\"g\":null}");
}

TEST(integers_are_written_to_their_limits)
{
        _buf_ struct buf out = BUF_INIT(1000);
        struct jsonw w;

        jsonw_begin(&w, &out);
        jsonw_array(&w);
        jsonw_i64(&w, 0);
        jsonw_i64(&w, INT64_MAX);
        jsonw_i64(&w, INT64_MIN);
        jsonw_u64(&w, 10);
        jsonw_array_end(&w);
        eq_int(jsonw_end(&w), 0);
        eq_str(out.p, "[0,9223372036854775807,-9223372036854775808,10]");
}

TEST(strings_are_escaped_where_they_must_be)
{
        static const struct {
                struct slice in, out;
        } cases[] = {
                { S(""), S("\"\"") },
                { S("plain / text \x7f"), S("\"plain / text \x7f\"") },
                { S("\"\\\b\f\n\r\t"), S("\"\\\"\\\\\\b\\f\\n\\r\\t\"") },
                { S("\0\x01\x1f\v"), S("\"\\u0000\\u0001\\u001f\\u000b\"") },
                { S("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), S("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"") },
                { S("a\xff"
                    "b"),
                  S("\"a\xef\xbf\xbd"
                    "b\"") },
                { S("\xc3"), S("\"\xef\xbf\xbd\"") },
                { S("\xed\xa0\x80"), S("\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"") },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                _buf_ struct buf out = BUF_INIT(1000);
                struct jsonw w;

                jsonw_begin(&w, &out);
                jsonw_string(&w, cases[i].in);
                eq_int(jsonw_end(&w), 0);
                eq_slice(buf_slice(&out), cases[i].out);
                ok(out.n <= jsonw_string_max(cases[i].in));
        }
}

TEST(what_is_written_is_read_back_wherever_the_special_byte_stands)
{
        static const char special[] = { '"', '\\', '\n', '\0', '\x1f', '\x7f' };

        for (size_t len = 1; len < 300; len += len < 70 ? 1 : 13) {
                /* The block has the exact length of the input, so that a sanitizer sees a read behind it. */
                char *in = malloc(len);

                assert_non_null(in);
                for (size_t at = 0; at < len; at++) {
                        _arena_ struct arena a = ARENA_INIT;
                        _buf_ struct buf out = BUF_INIT(4000);
                        struct jsonw w;
                        struct json_doc d;
                        struct json_error e;

                        memset(in, 'a', len);
                        in[at] = special[(at + len) % sizeof(special)];
                        jsonw_begin(&w, &out);
                        jsonw_string(&w, slice_from(in, len));
                        eq_int(jsonw_end(&w), 0);
                        eq_int(json_parse(&a, buf_slice(&out), &d, &e), 0);
                        eq_slice(json_string(&a, &d, json_root(&d)), slice_from(in, len));
                }
                free(in);
        }
}

static void write_sample(struct jsonw *w, struct buf *out)
{
        jsonw_begin(w, out);
        jsonw_object(w);
        jsonw_member_string(w, "text", S("a\"b\xff\x01"));
        jsonw_key(w, "bytes");
        jsonw_base64(w, S("0123456789"));
        jsonw_member_i64(w, "n", -123);
        jsonw_object_end(w);
}

TEST(a_full_buf_is_told_at_the_end_and_never_passed)
{
        _buf_ struct buf whole = BUF_INIT(1000);
        struct jsonw w;

        write_sample(&w, &whole);
        eq_int(jsonw_end(&w), 0);
        for (size_t cap = 0; cap < whole.n; cap++) {
                _buf_ struct buf out = BUF_INIT(cap);

                write_sample(&w, &out);
                eq_int(jsonw_end(&w), -ENOBUFS);
                ok(out.n <= cap);
                eq_slice(buf_slice(&out), slice_from(whole.p, out.n));
        }

        _buf_ struct buf exact = BUF_INIT(whole.n);
        write_sample(&w, &exact);
        eq_int(jsonw_end(&w), 0);
        eq_slice(buf_slice(&exact), buf_slice(&whole));
}

/* decode_test: which values each kind of member accepts, and the error texts for other values. */
#include "proto/decode.h"

#include "base/uri.h"
#include "proto/test_internal.h"
#include "unit.h"

#include <errno.h>

/* The kinds of members; each is tested with a member `x`. */
enum kind {
        STRING,
        BOOL,
        STRINGS,
        PATH,
        BASE64,
        MAP,
        VARIANT,
        OPT_BOOL,
        OPT_STRING,
        OPT_STRING_OR_NULL,
        OPT_STRINGS,
        OPT_U64,
        ARRAY,
        OPT_ARRAY,
};

static void decode_kind(struct decoder *d, enum kind kind)
{
        static const char *const names[] = { "a", "b", "c" };
        struct slice s = { 0 }, *list;
        struct string_pair *pairs;
        bool flag;
        size_t n;
        uint64_t number;

        switch (kind) {
        case STRING:
                decode_string(d, "x", &s);
                break;
        case BOOL:
                decode_bool(d, "x", &flag);
                break;
        case STRINGS:
                decode_strings(d, "x", &list, &n);
                break;
        case PATH:
                decode_path(d, "x", &s);
                break;
        case BASE64:
                decode_base64(d, "x", &s);
                break;
        case MAP:
                decode_string_map(d, "x", &pairs, &n);
                break;
        case VARIANT:
                decode_variant(d, "x", names, ARRAY_LEN(names), &n);
                break;
        case OPT_BOOL:
                decode_optional_bool(d, "x", &flag);
                break;
        case OPT_STRING:
                decode_optional_string(d, "x", &s);
                break;
        case OPT_STRING_OR_NULL:
                decode_optional_string_or_null(d, "x", &s);
                break;
        case OPT_STRINGS:
                decode_optional_strings(d, "x", &list, &n);
                break;
        case OPT_U64:
                decode_optional_u64_or_null(d, "x", &flag, &number);
                break;
        case ARRAY:
                (void)!decode_array(d, "x");
                break;
        case OPT_ARRAY:
                (void)!decode_optional_array(d, "x");
                break;
        }
}

static const struct {
        enum kind kind;
        const char *text;
        const char *message; /* NULL: accepted */
} members[] = {
        { STRING, "{'x':''}", NULL },
        { STRING, "{'X':''}", "missing field `x`" },
        { STRING, "{'x':null}", "invalid type: null, expected a string" },
        { STRING, "{'x':5}", "invalid type: number, expected a string" },
        { STRING, "{'x':true}", "invalid type: boolean `true`, expected a string" },
        { STRING, "{'x':[]}", "invalid type: sequence, expected a string" },
        { STRING, "{'x':{}}", "invalid type: map, expected a string" },
        { BOOL, "{'x':false,'y':5}", NULL },
        { BOOL, "{}", "missing field `x`" },
        { BOOL, "{'x':null}", "invalid type: null, expected a boolean" },
        { BOOL, "{'x':0}", "invalid type: number, expected a boolean" },
        { STRINGS, "{'x':[]}", NULL },
        { STRINGS, "{'x':['a','']}", NULL },
        { STRINGS, "{'x':'x'}", "invalid type: string \"x\", expected a sequence" },
        { STRINGS, "{'x':{}}", "invalid type: map, expected a sequence" },
        { STRINGS, "{'x':['a',1]}", "invalid type: number, expected a string" },
        { STRINGS, "{'x':[['a']]}", "invalid type: sequence, expected a string" },
        { PATH, "{'x':'/a'}", NULL },
        { PATH, "{'x':'file:///a'}", NULL },
        { PATH, "{}", "missing field `x`" },
        { PATH, "{'x':5}", "invalid type: number, expected a string" },
        { PATH, "{'x':'a/b'}", "path is not absolute: a/b" },
        { PATH, "{'x':'http://h/'}", "unsupported path URI scheme `http`" },
        { BASE64, "{'x':''}", NULL },
        { BASE64, "{'x':'QQ=='}", NULL },
        { BASE64, "{'x':'AA\\/\\/'}", NULL },
        { BASE64, "{'x':5}", "invalid type: number, expected a string" },
        { BASE64, "{'x':'!'}", "Invalid symbol 33, offset 0." },
        { BASE64, "{'x':'QQQ!'}", "Invalid symbol 33, offset 3." },
        { BASE64, "{'x':'QQ'}", "Invalid padding" },
        { BASE64, "{'x':'QQ='}", "Invalid padding" },
        { BASE64, "{'x':'Q'}", "Invalid input length: 1" },
        { BASE64, "{'x':'QR=='}", "Invalid last symbol 82, offset 1." },
        { BASE64, "{'x':'Q==='}", "Invalid symbol 61, offset 1." },
        { BASE64, "{'x':'QQ==QQ=='}", "Invalid symbol 61, offset 2." },
        { MAP, "{'x':{}}", NULL },
        { MAP, "{'x':{'a':'b','':''}}", NULL },
        { MAP, "{'x':[]}", "invalid type: sequence, expected a map" },
        { MAP, "{'x':{'a':null}}", "invalid type: null, expected a string" },
        { VARIANT, "{'x':'b'}", NULL },
        { VARIANT, "{'x':'\\u0062'}", NULL },
        { VARIANT, "{'x':'B'}", "unknown variant `B`, expected one of `a`, `b`, `c`" },
        { VARIANT, "{'x':5}", "invalid type: number, expected string or map" },
        { OPT_BOOL, "{}", NULL },
        { OPT_BOOL, "{'x':null}", "invalid type: null, expected a boolean" },
        { OPT_STRING, "{}", NULL },
        { OPT_STRING, "{'x':null}", "invalid type: null, expected a string" },
        { OPT_STRING_OR_NULL, "{'x':null}", NULL },
        { OPT_STRING_OR_NULL, "{'x':false}", "invalid type: boolean `false`, expected a string" },
        { OPT_STRINGS, "{}", NULL },
        { OPT_STRINGS, "{'x':null}", "invalid type: null, expected a sequence" },
        { OPT_U64, "{}", NULL },
        { OPT_U64, "{'x':null}", NULL },
        { OPT_U64, "{'x':18446744073709551615}", NULL },
        { OPT_U64, "{'x':18446744073709551616}", "invalid number" },
        { OPT_U64, "{'x':-1}", "invalid number" },
        { OPT_U64, "{'x':1.5}", "invalid number" },
        { OPT_U64, "{'x':1e2}", "invalid number" },
        { OPT_U64, "{'x':'1'}", "invalid type: string \"1\", expected u64" },
        { ARRAY, "{'x':[1,{}]}", NULL },
        { ARRAY, "{}", "missing field `x`" },
        { ARRAY, "{'x':null}", "invalid type: null, expected a sequence" },
        { OPT_ARRAY, "{}", NULL },
        { OPT_ARRAY, "{'x':{}}", "invalid type: map, expected a sequence" },
};

TEST(each_kind_of_member_takes_its_type_and_names_others)
{
        for (size_t i = 0; i < ARRAY_LEN(members); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                struct json_doc doc;
                struct decoder d;
                const struct json *params = test_parse(&a, slice_from_str(members[i].text), &doc);

                decode_begin(&d, &a, &doc, params, "Params", &err);
                decode_kind(&d, members[i].kind);
                eq_int(decode_end(&d), members[i].message ? -EINVAL : 0);
                eq_str(err.text, members[i].message ? members[i].message : "");
                eq_int(err.client_code, members[i].message ? RPC_INVALID_PARAMS : 0);
        }
}

TEST(params_that_are_no_object_are_refused)
{
        static const struct {
                const char *text, *message;
        } rows[] = {
                { NULL, "invalid type: null, expected struct P" },
                { "null", "invalid type: null, expected struct P" },
                { "[]", "invalid type: sequence, expected struct P" },
                { "['a',1]", "invalid type: sequence, expected struct P" },
                { "5", "invalid type: number, expected struct P" },
                { "'x'", "invalid type: string \"x\", expected struct P" },
                { "true", "invalid type: boolean `true`, expected struct P" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                struct json_doc doc = { 0 };
                struct decoder d;
                struct slice s = { 0 };
                const struct json *params =
                        rows[i].text ? test_parse(&a, slice_from_str(rows[i].text), &doc) : NULL;

                decode_begin(&d, &a, &doc, params, "P", &err);
                decode_string(&d, "x", &s); /* decode_string must not look into params that were refused */
                eq_int(decode_end(&d), -EINVAL);
                eq_str(err.text, rows[i].message);
        }
}

TEST(values_arrive_unescaped_and_in_order)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct json_doc doc;
        struct decoder d;
        struct slice s = { 0 }, bytes = { 0 }, *list = NULL;
        struct string_pair *pairs = NULL;
        size_t n = 0, pair_count = 0, which = 9;
        uint64_t number = 0;
        bool has = false;
        const struct json *params = test_parse(
                &a,
                S("{'s':'a\\u0000\\n','b':'aGVsbG8K','l':['1','\\t',''],'m':{'k\\u003d':'v','':'w'},"
                  "'v':'two','n':7,'p':'file:///a%20b/../c'}"),
                &doc);
        static const char *const names[] = { "one", "two" };

        decode_begin(&d, &a, &doc, params, "P", &err);
        decode_string(&d, "s", &s);
        eq_slice(s, S("a\0\n"));
        decode_base64(&d, "b", &bytes);
        eq_slice(bytes, S("hello\n"));
        decode_strings(&d, "l", &list, &n);
        eq_u64(n, 3);
        eq_slice(list[1], S("\t"));
        eq_slice(list[2], S(""));
        decode_string_map(&d, "m", &pairs, &pair_count);
        eq_u64(pair_count, 2);
        eq_slice(pairs[0].key, S("k="));
        eq_slice(pairs[1].value, S("w"));
        decode_variant(&d, "v", names, 2, &which);
        eq_u64(which, 1);
        decode_optional_u64_or_null(&d, "n", &has, &number);
        ok(has && number == 7);
        decode_path(&d, "p", &s);
        eq_slice(s, S("/c"));
        eq_str(s.p, "/c"); /* the path ends in a NUL */
        eq_int(decode_end(&d), 0);
}

TEST(the_first_complaint_stays)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct json_doc doc;
        struct decoder d, inner;
        struct slice s = S("untouched");
        bool flag = true;
        const struct json *params = test_parse(&a, S("{'b':'text','c':{}}"), &doc);

        decode_begin(&d, &a, &doc, params, "P", &err);
        decode_string(&d, "a", &s);
        decode_bool(&d, "b", &flag);
        ok(!decode_peek(&d, "c"));
        decode_begin_inside(&inner, &d, json_get(&doc, params, S("c")), "Inner");
        decode_string(&inner, "z", &s);
        decode_end_inside(&d, &inner);
        decode_fail(&d, "last");
        eq_int(decode_end(&d), -EINVAL);
        eq_str(err.text, "missing field `a`");
        eq_slice(s, S("untouched"));
        ok(flag);
}

TEST(a_complaint_from_within_reaches_the_outside)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct json_doc doc;
        struct decoder d, inner;
        struct slice s;
        const struct json *params = test_parse(&a, S("{'in':{'x':1}}"), &doc);

        decode_begin(&d, &a, &doc, params, "P", &err);
        decode_begin_inside(&inner, &d, decode_peek(&d, "in"), "Inner");
        decode_string(&inner, "y", &s);
        decode_end_inside(&d, &inner);
        eq_int(decode_end(&d), -EINVAL);
        eq_str(err.text, "missing field `y`");
}

TEST(our_own_members_are_named)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct json_doc doc;
        struct decoder d;
        bool flag;
        const struct json *params = test_parse(&a, S("{'takeover':5}"), &doc);

        decode_begin(&d, &a, &doc, params, "P", &err);
        decode_own_members(&d);
        decode_optional_bool(&d, "takeover", &flag);
        eq_int(decode_end(&d), -EINVAL);
        eq_str(err.text, "takeover: invalid type: number, expected a boolean");
}

TEST(two_variants_are_joined_with_or_and_one_stands_alone)
{
        _arena_ struct arena a = ARENA_INIT;
        static const char *const names[] = { "a", "b" };
        static const char *const texts[] = { "unknown variant `x`, expected `a`",
                                             "unknown variant `x`, expected `a` or `b`" };
        struct json_doc doc;
        size_t which;
        const struct json *params = test_parse(&a, S("{'v':'x'}"), &doc);

        for (size_t n = 1; n <= 2; n++) {
                struct err err = ERR_INIT;
                struct decoder d;
                decode_begin(&d, &a, &doc, params, "P", &err);
                decode_variant(&d, "v", names, n, &which);
                eq_int(decode_end(&d), -EINVAL);
                eq_str(err.text, texts[n - 1]);
        }
}

TEST(what_is_echoed_is_clipped_between_characters)
{
        _arena_ struct arena a = ARENA_INIT;
        char text[8192] = "{'x':'";
        struct json_doc doc;
        size_t n = strlen(text), which;

        for (size_t i = 0; i < 2000; i++, n += 3)
                memcpy(text + n, "€", 3);
        memcpy(text + n, "'}", 3);
        const struct json *params = test_parse(&a, slice_from_str(text), &doc);
        for (int kind = 0; kind < 2; kind++) {
                static const char *const names[] = { "a" };
                struct err err = ERR_INIT;
                struct decoder d;
                bool flag;
                decode_begin(&d, &a, &doc, params, "P", &err);
                if (kind == 0)
                        decode_bool(&d, "x", &flag);
                else
                        decode_variant(&d, "x", names, 1, &which);
                eq_int(decode_end(&d), -EINVAL);
                ok(strlen(err.text) < 200);
                ok(strstr(err.text, kind == 0 ? "…\", expected a boolean" : "`, expected `a`"));
        }
}

TEST(methods_without_params_take_none_null_and_an_empty_object)
{
        static const struct {
                const char *text, *message;
        } rows[] = {
                { NULL, NULL },
                { "null", NULL },
                { "{}", NULL },
                { " { } ", NULL },
                { "{'a':1}", "invalid type: map, expected unit" },
                { "[]", "invalid type: sequence, expected unit" },
                { "[1]", "invalid type: sequence, expected unit" },
                { "5", "invalid type: number, expected unit" },
                { "'x'", "invalid type: string \"x\", expected unit" },
                { "true", "invalid type: boolean `true`, expected unit" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                eq_int(test_decode(&a, decode_nothing, rows[i].text, NULL, &err),
                       rows[i].message ? -EINVAL : 0);
                eq_str(err.text, rows[i].message ? rows[i].message : "");
        }
}

TEST(refused_paths_say_why)
{
        static const struct {
                const char *text, *message;
        } rows[] = {
                { "tmp", "path is not absolute: tmp" },
                { "", "path is not absolute: " },
                { "HTTP://h/", "unsupported path URI scheme `http`" },
                { "file:///a?b", "query parameters are not allowed in path URIs" },
                { "file:///a#b", "fragments are not allowed in path URIs" },
                { "file:///a%00b", "'file:///a%00b' is invalid on 'linux'" },
                { "file:///C:/x", "'file:///C:/x' is invalid on 'linux'" },
                { "file://server/share", "'file://server/share' is invalid on 'linux'" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                struct slice text = slice_from_str(rows[i].text), path, detail = { 0 };
                enum uri_result r = uri_to_path(&a, text, &path, &detail);
                ok(r != URI_OK);
                eq_int(path_refusal(&err, RPC_INVALID_REQUEST, (int)r, text, detail), -EINVAL);
                eq_str(err.text, rows[i].message);
                eq_int(err.client_code, RPC_INVALID_REQUEST);
        }

        struct err err = ERR_INIT;
        eq_int(path_refusal(&err, RPC_INVALID_PARAMS, URI_CREDENTIALS, S(""), S("")), -EINVAL);
        eq_str(err.text, "credentials are not allowed in path URIs");
        eq_int(path_refusal(&err, RPC_INVALID_PARAMS, URI_PORT, S(""), S("")), -EINVAL);
        eq_str(err.text, "ports are not allowed in path URIs");
}

TEST(unordered_is_a_bool_of_any_file_request)
{
        static const struct {
                const char *text;
                bool is_unordered;
                const char *message; /* NULL: accepted */
        } rows[] = {
                { "{'path':'/x'}", false, NULL },
                { "{'unordered':true}", true, NULL },
                { "{'unordered':false}", false, NULL },
                { "{'unordered':null}", false, NULL },
                { "{'unordered':1}", false, "unordered: invalid type: number, expected a boolean" },
                { "{'unordered':'true'}", false,
                  "unordered: invalid type: string \"true\", expected a boolean" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct json_doc doc = { 0 };
                struct err err = ERR_INIT;
                bool is_unordered = false;
                const struct json *params = test_parse(&a, slice_from_str(rows[i].text), &doc);
                int r = decode_unordered(&a, &doc, params, &is_unordered, &err);
                eq_str(err.text, rows[i].message ? rows[i].message : "");
                eq_int(r, rows[i].message ? -EINVAL : 0);
                eq_int(is_unordered, rows[i].is_unordered);
        }
}

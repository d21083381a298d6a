/* http_test: params of http/request: what is accepted, what is refused and in which words. */
#include "proto/http.h"

#include "base/limits.h"
#include "proto/test_internal.h"
#include "unit.h"
#include "wire/http.h"

#include <errno.h>

static const char *const environment[] = {
        "FOO=foo", "EMPTY=", "BAD=a\nb", "OPENAI_API_KEY=k", "aws_session_token=k", NULL
};

struct row {
        const char *text;
        const char *message; /* NULL: accepted */
};

static int decode_and_build(struct arena *a, const char *text, struct http_request_params *in,
                            struct http_outgoing *out, struct err *err)
{
        int r = test_decode(a, http_request_decode, text, in, err);
        return r < 0 ? r : http_outgoing_build(a, in, environment, out, err);
}

static void check(const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct http_request_params in = { 0 };
                struct http_outgoing out;
                struct err err = ERR_INIT;
                int r = decode_and_build(&a, rows[i].text, &in, &out, &err);
                eq_str(err.text, rows[i].message ? rows[i].message : "");
                eq_int(r, rows[i].message ? -EINVAL : 0);
                eq_int(err.client_code, rows[i].message ? RPC_INVALID_PARAMS : 0);
        }
}

#define GET(more) "{'method':'GET','url':'http://h/','requestId':'r'" more "}"
#define METHOD(method) "{'method':'" method "','url':'http://h/','requestId':'r'}"
#define URL(url) "{'method':'GET','url':'" url "','requestId':'r'}"
#define HEADER(name, value) GET(",'headers':[{'name':'" name "','value':'" value "'}]")
#define VARIABLE(name) GET(",'headers':[{'name':'X-E','value':'v-','valueEnvVar':'" name "'}]")

TEST(members_are_checked_in_order_of_declaration)
{
        static const struct row rows[] = {
                { NULL, "invalid type: null, expected struct HttpRequestParams" },
                { "{}", "missing field `method`" },
                { "{'method':'GET'}", "missing field `url`" },
                { "{'method':'GET','url':'nope'}", "missing field `requestId`" },
                { GET(""), NULL },
                { GET(",'headers':null"), "invalid type: null, expected a sequence" },
                { GET(",'headers':['x']"), "invalid type: string \"x\", expected struct HttpHeader" },
                { GET(",'headers':[{'value':'x'}]"), "missing field `name`" },
                { GET(",'headers':[{'name':'x'}]"), "missing field `value`" },
                { GET(",'headers':[{'name':'x','value':'','valueEnvVar':5}]"),
                  "invalid type: number, expected a string" },
                { GET(",'headers':[{'name':'x','value':'','valueEnvVar':null}]"), NULL },
                { GET(",'bodyBase64':null"), NULL },
                { GET(",'bodyBase64':'YQ'"), "Invalid padding" },
                { GET(",'bodyBase64':'!!'"), "Invalid symbol 33, offset 0." },
                { GET(",'timeoutMs':null"), NULL },
                { GET(",'timeoutMs':-1"), "invalid number" },
                { GET(",'timeoutMs':'x'"), "invalid type: string \"x\", expected u64" },
                { GET(",'redirectPolicy':'stop'"), NULL },
                { GET(",'redirectPolicy':null"), "invalid type: null, expected string or map" },
                { GET(",'redirectPolicy':'x'"), "unknown variant `x`, expected `follow` or `stop`" },
                { GET(",'streamResponse':null"), "invalid type: null, expected a boolean" },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(methods_urls_and_headers_are_refused_in_the_words_that_clients_know)
{
        static const struct row rows[] = {
                { METHOD("get"), NULL },
                { METHOD("M-SEARCH"), NULL },
                { METHOD(""), "http/request method is invalid: invalid HTTP method" },
                { METHOD("BAD METHOD"), "http/request method is invalid: invalid HTTP method" },
                { METHOD("GET\\n"), "http/request method is invalid: invalid HTTP method" },
                { METHOD("G\\u0000"), "http/request method is invalid: invalid HTTP method" },
                { URL("nope"), "http/request url is invalid: relative URL without a base" },
                { URL("http://h:x/"), "http/request url is invalid: invalid port number" },
                { URL("ftp://x/"), "http/request only supports http and https URLs, got ftp" },
                { HEADER("", "x"), "http/request header name is invalid: invalid HTTP header name" },
                { HEADER("bad name", "x"), "http/request header name is invalid: invalid HTTP header name" },
                { HEADER("x", "a\\tb"), NULL },
                { HEADER("x", "\\u00e9"), NULL },
                { HEADER("X-A", "a\\nb"),
                  "http/request header value is invalid for X-A: failed to parse header value" },
                { HEADER("X-A", "a\\u0000"),
                  "http/request header value is invalid for X-A: failed to parse header value" },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(variables_are_resolved_or_refused)
{
        static const struct row rows[] = {
                { VARIABLE("FOO"), NULL },
                { VARIABLE("NOPE"), "http/request header X-E requires executor environment variable NOPE" },
                { VARIABLE(""), "http/request header X-E requires executor environment variable " },
                { VARIABLE("FOO=foo"),
                  "http/request header X-E requires executor environment variable FOO=foo" },
                { VARIABLE("EMPTY"),
                  "http/request header X-E requires a non-empty executor environment variable EMPTY" },
                { VARIABLE("BAD"),
                  "http/request header value is invalid for X-E: failed to parse header value" },
                { VARIABLE("OPENAI_API_KEY"),
                  "http/request header X-E cannot use executor environment variable OPENAI_API_KEY" },
                { VARIABLE("aws_session_token"),
                  "http/request header X-E cannot use executor environment variable aws_session_token" },
                { VARIABLE("FARHAND_TOKEN"),
                  "http/request header X-E cannot use executor environment variable FARHAND_TOKEN" },
        };
        check(rows, ARRAY_LEN(rows));
}

TEST(what_goes_out_is_in_one_spelling)
{
        _arena_ struct arena a = ARENA_INIT;
        struct http_request_params in = { 0 };
        struct http_outgoing out;
        struct err err = ERR_INIT;
        eq_int(decode_and_build(
                       &a,
                       "{'method':'PUT','url':'HTTP://us:er@H/a b#f','requestId':'r','bodyBase64':'YWI=',"
                       "'timeoutMs':5,'streamResponse':true,'redirectPolicy':'stop',"
                       "'headers':[{'name':'X-E','value':'v-','valueEnvVar':'FOO'}]}",
                       &in, &out, &err),
               0);
        eq_slice(out.url, S("http://h/a%20b"));
        eq_int(out.header_count, 2);
        eq_slice(out.headers[0].name, S("x-e"));
        eq_slice(out.headers[0].value, S("v-foo"));
        eq_slice(out.headers[1].name, S("authorization"));
        eq_slice(out.headers[1].value, S("Basic dXM6ZXI="));
        eq_slice(in.body, S("ab"));
        ok(in.has_timeout && in.timeout_ms == 5 && in.streams && in.stops_at_redirect);
}

TEST(headers_that_hold_a_variable_are_private_by_name)
{
        static const struct {
                const char *headers, *names;
        } rows[] = {
                { "{'name':'A','value':''}", "" },
                { "{'name':'A','value':'','valueEnvVar':null}", "" },
                { "{'name':'A','value':'','valueEnvVar':'FOO'}", "a" },
                { "{'name':'A','value':'','valueEnvVar':'FOO'},{'name':'b','value':''},"
                  "{'name':'C','value':'c','valueEnvVar':'FOO'}",
                  "a,c" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct http_request_params in = { 0 };
                struct http_outgoing out;
                struct err err = ERR_INIT;
                const char *text =
                        arena_printf(&a,
                                     "{'method':'GET','url':'http://u@h/','requestId':'r','headers':[%s]}",
                                     rows[i].headers);
                eq_int(decode_and_build(&a, text, &in, &out, &err), 0);
                eq_slice(out.private_names, slice_from_str(rows[i].names));
        }
}

TEST(an_authorization_header_goes_before_the_user_of_the_url)
{
        _arena_ struct arena a = ARENA_INIT;
        struct http_request_params in = { 0 };
        struct http_outgoing out;
        struct err err = ERR_INIT;
        eq_int(decode_and_build(&a,
                                "{'method':'GET','url':'http://u@h/','requestId':'r',"
                                "'headers':[{'name':'Authorization','value':'mine'}]}",
                                &in, &out, &err),
               0);
        eq_int(out.header_count, 1);
        eq_slice(out.headers[0].value, S("mine"));
}

TEST(a_request_that_is_too_large_is_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        struct http_request_params in = { .method = S("GET"), .url = S("http://h/") };
        struct http_outgoing out;
        struct err err = ERR_INIT;
        char *big = arena_alloc(&a, LIMIT_HTTP_HEAD_BYTES);
        memset(big, 'x', LIMIT_HTTP_HEAD_BYTES);
        struct http_param_header h = { .name = S("x"), .value = slice_from(big, LIMIT_HTTP_HEAD_BYTES) };
        in.headers = &h;
        in.header_count = 1;
        eq_int(http_outgoing_build(&a, &in, environment, &out, &err), -EINVAL);
        eq_int(err.client_code, RPC_INVALID_PARAMS);
}

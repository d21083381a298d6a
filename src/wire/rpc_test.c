/* rpc_test: how messages are classified, which are refused, and the envelopes that we write. */
#include "wire/rpc.h"

#include "unit.h"

#include <errno.h>

static int parse(struct arena *a, struct slice text, struct rpc_message *ret, struct json_error *ret_error)
{
        char *p = arena_alloc(a, text.n + BUF_PADDING);

        memcpy(p, text.p, text.n);
        memset(p + text.n, '"', BUF_PADDING);
        return rpc_parse(a, slice_from(p, text.n), ret, ret_error);
}

static const struct {
        struct slice text;
        enum rpc_kind kind;
        const char *id; /* as we write it; NULL: none */
        const char *method;
} good[] = {
        { S("{\"id\":1,\"method\":\"a/b\"}"), RPC_REQUEST, "1", "a/b" },
        { S("{\"method\":\"m\",\"id\":\"\",\"params\":{}}"), RPC_REQUEST, "\"\"", "m" },
        { S("{\"id\":-0,\"method\":\"\"}"), RPC_REQUEST, "0", "" },
        { S("{\"id\":9223372036854775807,\"method\":\"m\"}"), RPC_REQUEST, "9223372036854775807", "m" },
        { S("{\"id\":-9223372036854775808,\"method\":\"m\"}"), RPC_REQUEST, "-9223372036854775808", "m" },
        { S("{\"id\":\"a\\u0000\\ud83d\\ude00\\/\",\"method\":\"m\"}"), RPC_REQUEST,
          "\"a\\u0000\xf0\x9f\x98\x80/\"", "m" },
        { S("{\"\\u0069d\":5,\"\\u006dethod\":\"x\\u002fy\"}"), RPC_REQUEST, "5", "x/y" },
        { S("{\"jsonrpc\":7,\"id\":1,\"method\":\"m\",\"params\":null,\"more\":[]}"), RPC_REQUEST, "1", "m" },
        { S("{\"id\":1,\"method\":\"m\",\"trace\":5}"), RPC_REQUEST, "1", "m" },
        { S("{\"id\":1,\"method\":\"m\",\"trace\":{\"traceparent\":\"00-1-2-01\"}}"), RPC_REQUEST, "1", "m" },
        { S("{\"id\":1,\"method\":\"m\",\"result\":1,\"error\":2}"), RPC_REQUEST, "1", "m" },
        { S("{\"method\":\"initialized\"}"), RPC_NOTIFICATION, NULL, "initialized" },
        { S("{\"method\":\"m\",\"params\":[1]}"), RPC_NOTIFICATION, NULL, "m" },
        { S("{\"id\":7,\"result\":null}"), RPC_RESPONSE, "7", NULL },
        { S("{\"result\":{},\"id\":\"x\",\"error\":5}"), RPC_RESPONSE, "\"x\"", NULL },
        { S("{\"error\":{\"code\":-32600,\"message\":\"m\"},\"id\":-1}"), RPC_ERROR, "-1", NULL },
        { S("{\"id\":2,\"error\":{\"data\":5,\"message\":\"\",\"code\":0}}"), RPC_ERROR, "2", NULL },
};

TEST(messages_are_classified)
{
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                _arena_ struct arena a = ARENA_INIT;
                _buf_ struct buf out = BUF_INIT(1000);
                struct rpc_message m;
                struct json_error e;
                struct jsonw w;

                eq_int(parse(&a, good[i].text, &m, &e), 0);
                eq_int(m.kind, good[i].kind);
                eq_slice(m.method, slice_from_str(good[i].method));
                eq_int(m.result != NULL, m.kind == RPC_RESPONSE);
                eq_int(m.error != NULL, m.kind == RPC_ERROR);
                if (!good[i].id)
                        continue;
                jsonw_begin(&w, &out);
                if (m.id.is_string)
                        jsonw_string(&w, m.id.string);
                else
                        jsonw_i64(&w, m.id.number);
                eq_int(jsonw_end(&w), 0);
                eq_str(out.p, good[i].id);
        }
}

TEST(every_truncation_of_a_message_is_refused)
{
        for (size_t i = 0; i < ARRAY_LEN(good); i++) {
                for (size_t n = 0; n < good[i].text.n; n++) {
                        _arena_ struct arena a = ARENA_INIT;
                        struct rpc_message m;
                        struct json_error e;

                        eq_int(parse(&a, slice_from(good[i].text.p, n), &m, &e), -EINVAL);
                        assert_memory_equal(e.text, "EOF while parsing ", 18);
                }
        }
}

TEST(params_are_given_as_they_are_or_not_at_all)
{
        _arena_ struct arena a = ARENA_INIT;
        struct rpc_message m;
        struct json_error e;

        eq_int(parse(&a, S("{\"id\":1,\"method\":\"m\"}"), &m, &e), 0);
        assert_null(m.params);
        eq_int(parse(&a, S("{\"id\":1,\"method\":\"m\",\"params\":null}"), &m, &e), 0);
        eq_int(m.params->type, JSON_NULL);
        eq_int(parse(&a, S("{\"method\":\"m\",\"params\":{\"a\":[1]}}"), &m, &e), 0);
        eq_slice(json_raw(&m.doc, m.params), S("{\"a\":[1]}"));
}

#define NO_ID "data did not match any variant of untagged enum RequestId"

TEST(other_messages_are_refused_in_the_words_that_clients_know)
{
        static const struct {
                struct slice text;
                const char *error;
        } bad[] = {
                { S("null"), "expected a JSON-RPC object" },
                { S("5"), "expected a JSON-RPC object" },
                { S("\"x\""), "expected a JSON-RPC object" },
                { S("[]"), "expected a JSON-RPC object" },
                { S("[{\"id\":1,\"method\":\"environment/status\"}]"), "expected a JSON-RPC object" },
                { S("{}"), "missing field `error`" },
                { S("{\"id\":1}"), "missing field `error`" },
                { S("{\"foo\":1}"), "missing field `error`" },
                { S("{\"id\":null,\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":1.5,\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":1e2,\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":1e999,\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":true,\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":{},\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":[],\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":9223372036854775808,\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":18446744073709551616,\"method\":\"m\"}"),
                  "invalid type: integer `18446744073709551616` as u128, expected any value" },
                { S("{\"id\":99999999999999999999,\"method\":\"m\"}"),
                  "invalid type: integer `99999999999999999999` as u128, expected any value" },
                { S("{\"id\":-9223372036854775809,\"method\":\"m\"}"),
                  "invalid type: integer `-9223372036854775809` as i128, expected any value" },
                { S("{\"id\":99999999999999999999999999999999999999999,\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":-99999999999999999999999999999999999999999,\"method\":\"m\"}"), NO_ID },
                { S("{\"id\":3,\"method\":5}"), "invalid type: number, expected a string" },
                { S("{\"id\":3,\"method\":null}"), "invalid type: null, expected a string" },
                { S("{\"method\":7}"), "invalid type: number, expected a string" },
                { S("{\"method\":true}"), "invalid type: boolean `true`, expected a string" },
                { S("{\"method\":[]}"), "invalid type: sequence, expected a string" },
                { S("{\"method\":{}}"), "invalid type: map, expected a string" },
                { S("{\"id\":null,\"method\":5}"), NO_ID },
                { S("{\"result\":1}"), "missing field `id`" },
                { S("{\"id\":null,\"result\":1}"), NO_ID },
                { S("{\"error\":null}"), "invalid type: null, expected struct JSONRPCErrorError" },
                { S("{\"error\":\"x\"}"), "invalid type: string \"x\", expected struct JSONRPCErrorError" },
                { S("{\"error\":[]}"), "invalid type: sequence, expected struct JSONRPCErrorError" },
                { S("{\"error\":{}}"), "missing field `code`" },
                { S("{\"id\":1,\"error\":{\"message\":\"m\"}}"), "missing field `code`" },
                { S("{\"id\":1,\"error\":{\"code\":1}}"), "missing field `message`" },
                { S("{\"id\":1,\"error\":{\"code\":1.5,\"message\":\"m\"}}"), "invalid number" },
                { S("{\"id\":1,\"error\":{\"code\":9223372036854775808,\"message\":\"m\"}}"),
                  "invalid number" },
                { S("{\"id\":9,\"error\":{\"code\":\"x\",\"message\":\"m\"}}"),
                  "invalid type: string \"x\", expected i64" },
                { S("{\"id\":9,\"error\":{\"code\":null,\"message\":\"m\"}}"),
                  "invalid type: null, expected i64" },
                { S("{\"id\":9,\"error\":{\"code\":1,\"message\":5}}"),
                  "invalid type: number, expected a string" },
                { S("{\"error\":{\"code\":1,\"message\":\"m\"}}"), "missing field `id`" },
                { S("{\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}"), NO_ID },
                { S("{\"id\":4,\"id\":5,\"method\":\"m\"}"),
                  "duplicate JSON object key `id` at line 1 column 12" },
                { S("{\"id\":7,\"method\":\"m\"} x"), "trailing characters at line 1 column 23" },
        };

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct rpc_message m;
                struct json_error e;

                eq_int(parse(&a, bad[i].text, &m, &e), -EINVAL);
                eq_str(e.text, bad[i].error);
        }
}

TEST(a_huge_value_is_not_quoted_in_an_error_text)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(1 << 20);
        struct rpc_message m;
        struct json_error e;

        eq_int(buf_printf(&text, "{\"id\":1,\"error\":{\"code\":\"%0100000d\",\"message\":\"\"}}", 0), 0);
        eq_int(rpc_parse(&a, buf_slice(&text), &m, &e), -EINVAL);
        eq_str(e.text, "invalid type: string, expected i64");
}

TEST(a_copied_id_outlives_its_message)
{
        struct rpc_id text, number, none;
        {
                _arena_ struct arena a = ARENA_INIT;
                struct rpc_message m;
                struct json_error e;

                eq_int(parse(&a, S("{\"id\":\"a\\u0000b\",\"method\":\"m\"}"), &m, &e), 0);
                text = rpc_id_dup(&m.id);
                eq_int(parse(&a, S("{\"id\":5,\"method\":\"m\"}"), &m, &e), 0);
                number = rpc_id_dup(&m.id);
                none = rpc_id_dup(&RPC_ID_NONE);
        }
        ok(text.is_string);
        eq_slice(text.string, S("a\0b"));
        ok(!number.is_string);
        eq_int(number.number, 5);
        eq_int(none.number, -1);
        rpc_id_release(&text);
        rpc_id_release(&text);
        rpc_id_release(&number);
        rpc_id_release(&none);
}

TEST(results_and_notifications_have_their_envelopes)
{
        _buf_ struct buf out = BUF_INIT(1000);
        struct rpc_id id = { .is_string = true, .string = S("q\"") };
        struct jsonw w;

        rpc_result_begin(&w, &out, &id);
        jsonw_object(&w);
        jsonw_member_str(&w, "status", "ready");
        jsonw_object_end(&w);
        eq_int(rpc_result_end(&w), 0);
        eq_str(out.p, "{\"id\":\"q\\\"\",\"result\":{\"status\":\"ready\"}}");

        buf_truncate(&out, 0);
        rpc_notification_begin(&w, &out, "process/exited");
        jsonw_null(&w);
        eq_int(rpc_notification_end(&w), 0);
        eq_str(out.p, "{\"method\":\"process/exited\",\"params\":null}");
}

TEST(errors_carry_data_only_when_there_is_something)
{
        static const char plain[] = "{\"error\":{\"code\":-32600,\"message\":\"no \\\"x\\\"\"},\"id\":-1}";
        _buf_ struct buf out = BUF_INIT(1000);
        struct err err = ERR_INIT;

        err_set(&err, RPC_INVALID_REQUEST, -EINVAL, "no \"%s\"", "x");
        eq_int(rpc_error_write(&out, &RPC_ID_NONE, &err, NULL), 0);
        eq_str(out.p, plain);

        buf_truncate(&out, 0);
        eq_int(rpc_error_write(&out, &RPC_ID_NONE, &err, ""), 0);
        eq_str(out.p, plain);

        buf_truncate(&out, 0);
        eq_int(rpc_error_write(&out, &(struct rpc_id){ .number = 3 }, &err, "\"limit\":\"x\",\"value\":1"),
               0);
        eq_str(out.p, "{\"error\":{\"code\":-32600,\"message\":\"no \\\"x\\\"\","
                      "\"data\":{\"limit\":\"x\",\"value\":1}},\"id\":3}");

        buf_truncate(&out, 0);
        err.client_code = RPC_INTERNAL;
        err.os_errno = ENOENT;
        err.step = "exec";
        err.reason = "missing";
        err.remedy = "Install it.";
        eq_int(rpc_error_write(&out, &(struct rpc_id){ .number = 3 }, &err, "\"path\":\"p\""), 0);
        eq_str(out.p,
               "{\"error\":{\"code\":-32603,\"message\":\"no \\\"x\\\"\","
               "\"data\":{\"step\":\"exec\",\"errno\":2,\"errnoName\":\"ENOENT\",\"reason\":\"missing\","
               "\"remedy\":\"Install it.\",\"path\":\"p\"}},\"id\":3}");
}

TEST(an_error_that_does_not_fit_says_so)
{
        _buf_ struct buf out = BUF_INIT(20);
        struct err err = ERR_INIT;

        err_set(&err, RPC_INTERNAL, -EIO, "a long text");
        eq_int(rpc_error_write(&out, &RPC_ID_NONE, &err, NULL), -ENOBUFS);
        ok(out.n <= 20);
}

#include "unified/shell_args.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "unit.h"

/* Decodes the arguments, with ' for ". Returns the error, or "". */
static const char *decode(struct arena *a, const char *text, struct shell_args *ret)
{
        _buf_ struct buf json = BUF_INIT(4096);
        struct json_doc doc;
        struct json_error bad;
        struct err err = ERR_INIT;
        must(buf_append(&json, slice_from_str(text)) == 0);
        for (size_t i = 0; i < json.n; i++)
                if (json.p[i] == '\'')
                        json.p[i] = '"';
        char *copy = arena_alloc(a, json.n + BUF_PADDING);
        memcpy(copy, json.p, json.n);
        ok(json_parse(a, slice_from(copy, json.n), &doc, &bad) == 0);
        if (shell_args_decode(a, &doc, json_root(&doc), ret, &err) == 0)
                return "";
        return arena_dup(a, slice_from_str(err.text));
}

TEST(two_members_are_needed_and_the_others_have_defaults)
{
        _arena_ struct arena a = ARENA_INIT;
        struct shell_args args;
        eq_str(decode(&a, "{'command':'ls','workdir':'/w'}", &args), "");
        eq_str(args.command, "ls");
        eq_str(args.workdir, "/w");
        eq_u64(args.timeout_ms, 10000);
        ok(args.login && !args.environment_id);
        eq_str(decode(&a,
                      "{'workdir':'/w','command':'a\\nb','timeout_ms':0,'login':false,'environment_id':'x'}",
                      &args),
               "");
        eq_str(args.command, "a\nb");
        ok(args.timeout_ms == 0 && !args.login);
        eq_str(args.environment_id, "x");
}

TEST(null_is_no_member_and_unknown_members_are_left_out)
{
        _arena_ struct arena a = ARENA_INIT;
        struct shell_args args;
        eq_str(decode(&a,
                      "{'command':'ls','workdir':'/"
                      "w','timeout_ms':null,'login':null,'environment_id':null,'x':1}",
                      &args),
               "");
        ok(args.timeout_ms == 10000 && args.login && !args.environment_id);
}

TEST(mistakes_have_the_words_that_clients_know)
{
        static const struct {
                const char *text, *error;
        } rows[] = {
                { "{}", "missing field `command`" },
                { "{'command':'x'}", "missing field `workdir`" },
                { "{'command':5,'workdir':'/'}", "invalid type: integer `5`, expected a string" },
                { "{'command':null,'workdir':'/'}", "invalid type: null, expected a string" },
                { "{'command':'x','workdir':'/','timeout_ms':-1}",
                  "invalid value: integer `-1`, expected u64" },
                { "{'command':'x','workdir':'/','timeout_ms':1.5}",
                  "invalid type: floating point `1.5`, expected u64" },
                { "{'command':'x','workdir':'/','timeout_ms':'1'}",
                  "invalid type: string \"1\", expected u64" },
                { "{'command':'x','workdir':'/','timeout_ms':18446744073709551616}",
                  "invalid value: integer `18446744073709551616`, expected u64" },
                { "{'command':'x','workdir':'/','login':1}",
                  "invalid type: integer `1`, expected a boolean" },
                { "{'command':'x\\u0000y','workdir':'/'}", "command: a NUL byte" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct shell_args args;
                const char *error = decode(&a, rows[i].text, &args),
                           *wanted = arena_printf(&a, "failed to deserialize parameters: %s", rows[i].error);
                eq_str(error, wanted);
        }
}

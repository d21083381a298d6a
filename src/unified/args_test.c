/* args_test: types, defaults, bounds and error texts of the arguments of the tools. */
#include "unified/args.h"

#include "base/buf.h"
#include "unit.h"

#include <stdio.h>

struct decoded {
        struct arena a;
        struct err err;
        struct exec_args exec;
        struct write_args write;
        struct patch_args patch;
        int result;
};

static struct json_doc parse(struct arena *a, const char *text)
{
        struct json_doc doc;
        struct json_error bad;
        size_t n = strlen(text);
        char *copy = arena_zalloc(a, n + BUF_PADDING);
        memcpy(copy, text, n);
        eq_int(json_parse(a, slice_from(copy, n), &doc, &bad), 0);
        return doc;
}

static struct decoded exec_of(const char *text)
{
        struct decoded d = { 0 };
        struct json_doc doc = parse(&d.a, text);
        d.result = args_decode_exec(&d.a, &doc, json_root(&doc), &d.exec, &d.err);
        return d;
}

static struct decoded write_of(const char *text, uint64_t poll_most_ms)
{
        struct decoded d = { 0 };
        struct json_doc doc = parse(&d.a, text);
        d.result = args_decode_write(&d.a, &doc, json_root(&doc), poll_most_ms, &d.write, &d.err);
        return d;
}

static struct decoded patch_of(const char *text)
{
        struct decoded d = { 0 };
        struct json_doc doc = parse(&d.a, text);
        d.result = args_decode_patch(&d.a, &doc, json_root(&doc), &d.patch, &d.err);
        return d;
}

static void eq_exec_error(const char *text, const char *error)
{
        struct decoded d = exec_of(text);
        ok(d.result < 0);
        eq_str(d.err.text, error);
        arena_release(&d.a);
}

static void eq_write_error(const char *text, const char *error)
{
        struct decoded d = write_of(text, POLL_MOST_MS);
        ok(d.result < 0);
        eq_str(d.err.text, error);
        arena_release(&d.a);
}

TEST(exec_command_has_these_defaults)
{
        struct decoded d = exec_of("{\"cmd\":\"ls\"}");
        eq_int(d.result, 0);
        eq_str(d.exec.cmd, "ls");
        ok(!d.exec.workdir && !d.exec.tty && !d.exec.shell && !d.exec.has_login && !d.exec.environment_id);
        eq_u64(d.exec.yield_ms, 10000);
        eq_u64(d.exec.max_output_tokens, 10000);
        eq_int(d.exec.wish, APPROVAL_USE_DEFAULT);
        ok(!d.exec.justification && !d.exec.additional_permissions);
        arena_release(&d.a);
}

TEST(exec_command_takes_all_its_members)
{
        struct decoded d = exec_of(
                "{\"cmd\":\"a\\nb\",\"workdir\":\"w\",\"tty\":true,\"yield_time_ms\":300,\"max_output_"
                "tokens\":"
                "5,\"shell\":\"/bin/sh\",\"login\":false,\"environment_id\":\"e\",\"sandbox_permissions\":"
                "\"with_additional_permissions\",\"justification\":\"j\",\"prefix_rule\":[\"a\"],"
                "\"additional_permissions\":{\"x\":[1]}}");
        eq_int(d.result, 0);
        eq_str(d.exec.cmd, "a\nb");
        eq_str(d.exec.workdir, "w");
        ok(d.exec.tty && d.exec.has_login && !d.exec.login);
        eq_u64(d.exec.yield_ms, 300);
        eq_u64(d.exec.max_output_tokens, 5);
        eq_str(d.exec.shell, "/bin/sh");
        eq_str(d.exec.environment_id, "e");
        eq_int(d.exec.wish, APPROVAL_WITH_ADDITIONAL);
        eq_str(d.exec.justification, "j");
        eq_str(d.exec.additional_permissions, "{\"x\":[1]}");
        arena_release(&d.a);
}

TEST(null_is_the_same_as_no_member_and_empty_texts_are_defaults)
{
        struct decoded d =
                exec_of("{\"cmd\":\"a\",\"workdir\":\"\",\"shell\":\"\",\"login\":null,\"tty\":null,"
                        "\"yield_time_ms\":null,\"sandbox_permissions\":null}");
        eq_int(d.result, 0);
        ok(!d.exec.workdir && !d.exec.shell && !d.exec.has_login && !d.exec.tty);
        eq_u64(d.exec.yield_ms, 10000);
        arena_release(&d.a);
}

TEST(the_window_of_exec_command_is_clamped)
{
        static const struct {
                const char *text;
                uint64_t ms;
        } cases[] = {
                { "0", 250 },    { "249", 250 },     { "250", 250 },     { "250.9", 250 },
                { "251", 251 },  { "30000", 30000 }, { "30001", 30000 }, { "99999999999999999999", 30000 },
                { "1e3", 1000 }, { "1e400", 30000 }, { "1500.0", 1500 },
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                char text[100];
                (void)snprintf(text, sizeof(text), "{\"cmd\":\"a\",\"yield_time_ms\":%s}", cases[i].text);
                struct decoded d = exec_of(text);
                eq_int(d.result, 0);
                eq_u64(d.exec.yield_ms, cases[i].ms);
                arena_release(&d.a);
        }
}

TEST(the_window_of_write_stdin_depends_on_whether_it_is_a_poll)
{
        static const struct {
                const char *members;
                uint64_t most, ms;
        } cases[] = {
                { "\"chars\":\"a\"", 300000, 250 },
                { "\"chars\":\"a\",\"yield_time_ms\":1", 300000, 250 },
                { "\"chars\":\"a\",\"yield_time_ms\":99999", 300000, 30000 },
                { "\"chars\":\"\"", 300000, 5000 },
                { "\"yield_time_ms\":4999", 300000, 5000 },
                { "\"yield_time_ms\":5001", 300000, 5001 },
                { "\"yield_time_ms\":300001", 300000, 300000 },
                { "\"yield_time_ms\":300001", 6000, 6000 },
                { "\"yield_time_ms\":300001", 10, 5000 },
                { "\"chars\":null", 300000, 5000 },
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                char text[200];
                (void)snprintf(text, sizeof(text), "{\"session_id\":1,%s}", cases[i].members);
                struct decoded d = write_of(text, cases[i].most);
                eq_int(d.result, 0);
                eq_u64(d.write.yield_ms, cases[i].ms);
                arena_release(&d.a);
        }
}

TEST(write_stdin_has_these_defaults)
{
        struct decoded d = write_of("{\"session_id\":-7}", POLL_MOST_MS);
        eq_int(d.result, 0);
        eq_int(d.write.session_id, -7);
        eq_u64(d.write.chars.n, 0);
        eq_u64(d.write.max_output_tokens, 10000);
        arena_release(&d.a);
        d = write_of("{\"session_id\":7,\"chars\":\"\\u0003\"}", POLL_MOST_MS);
        eq_slice(d.write.chars, S("\x03"));
        arena_release(&d.a);
}

#define PARSE "failed to parse function arguments: "

TEST(bad_arguments_of_exec_command_are_refused)
{
        eq_exec_error("{}", PARSE "missing field `cmd`");
        eq_exec_error("[]", PARSE "invalid type: sequence, expected a map");
        eq_exec_error("{\"cmd\":1}", PARSE "cmd: invalid type: number, expected a string");
        eq_exec_error("{\"cmd\":null}", PARSE "cmd: invalid type: null, expected a string");
        eq_exec_error("{\"cmd\":\"a\\u0000\"}", PARSE "cmd: a NUL byte");
        eq_exec_error("{\"cmd\":\"a\",\"tty\":1}", PARSE "tty: invalid type: number, expected a boolean");
        eq_exec_error("{\"cmd\":\"a\",\"yield_time_ms\":-1}", PARSE "yield_time_ms: a negative number");
        eq_exec_error("{\"cmd\":\"a\",\"yield_time_ms\":\"1\"}",
                      PARSE "yield_time_ms: invalid type: string, expected a number");
        eq_exec_error("{\"cmd\":\"a\",\"prefix_rule\":[1]}",
                      PARSE "prefix_rule: invalid type: number, expected a string");
        eq_exec_error("{\"cmd\":\"a\",\"sandbox_permissions\":\"x\"}", PARSE
                      "unknown variant `x`, expected one of `use_default`, `with_additional_permissions`, "
                      "`require_escalated`");
        eq_exec_error("{\"cmd\":\"a\",\"b\":1}",
                      PARSE "unknown field `b`, expected one of `cmd`, `workdir`, `tty`, `yield_time_ms`, "
                            "`max_output_tokens`, `shell`, `login`, `environment_id`, `sandbox_permissions`, "
                            "`justification`, `prefix_rule`, `additional_permissions`");
}

TEST(additional_permissions_and_the_wish_for_them_belong_together)
{
        eq_exec_error("{\"cmd\":\"a\",\"sandbox_permissions\":\"with_additional_permissions\"}",
                      "missing `additional_permissions`; `sandbox_permissions` is "
                      "`with_additional_permissions`");
        eq_exec_error("{\"cmd\":\"a\",\"additional_permissions\":{}}",
                      "`additional_permissions` requires `sandbox_permissions` set to "
                      "`with_additional_permissions`");
}

TEST(bad_arguments_of_write_stdin_are_refused)
{
        eq_write_error("{}", PARSE "missing field `session_id`");
        eq_write_error("{\"session_id\":\"1\"}",
                       PARSE "session_id: invalid type: string, expected an integer");
        eq_write_error("{\"session_id\":1.5}", PARSE "session_id: invalid type: number, expected an integer");
        eq_write_error("{\"session_id\":1,\"chars\":2}",
                       PARSE "chars: invalid type: number, expected a string");
        eq_write_error("{\"session_id\":1,\"cmd\":\"\"}",
                       PARSE "unknown field `cmd`, expected one of `session_id`, `chars`, `yield_time_ms`, "
                             "`max_output_tokens`");
}

TEST(apply_patch_takes_its_members)
{
        struct decoded d = patch_of("{\"input\":\"*** x\",\"workdir\":\"w\",\"environment_id\":\"e\"}");
        eq_int(d.result, 0);
        eq_slice(d.patch.input, S("*** x"));
        eq_str(d.patch.workdir, "w");
        eq_str(d.patch.environment_id, "e");
        arena_release(&d.a);
        d = patch_of("{}");
        eq_str(d.err.text, PARSE "missing field `input`");
        arena_release(&d.a);
}

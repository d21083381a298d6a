/* unified_request_test: what lines to `farhand unified` ask for. */
#include "agent/unified_request.h"

#include "unit.h"

static struct request read_line(struct arena *a, const char *text, const char *error)
{
        struct request r;
        struct err err = ERR_INIT;
        size_t n = strlen(text);
        char *copy = arena_zalloc(a, n + BUF_PADDING);
        memcpy(copy, text, n);
        int result = request_read(a, slice_from(copy, n), &r, &err);
        eq_int(result < 0, error != NULL);
        if (error)
                eq_str(err.text, error);
        return r;
}

TEST(calls_are_read)
{
        _arena_ struct arena a = ARENA_INIT;
        struct request r =
                read_line(&a, "{\"id\":1,\"tool\":\"exec_command\",\"arguments\":{\"cmd\":\"ls\"}}", NULL);
        eq_int(r.kind, REQUEST_CALL);
        eq_str(r.id, "1");
        eq_int(r.tool, UNIFIED_EXEC_COMMAND);
        eq_slice(r.arguments, S("{\"cmd\":\"ls\"}"));
        r = read_line(&a, "{\"id\":\"a\\u0062\",\"tool\":\"write_stdin\"}", NULL);
        eq_str(r.id, "\"ab\"");
        eq_int(r.tool, UNIFIED_WRITE_STDIN);
        eq_slice(r.arguments, S("{}"));
        r = read_line(&a, "{\"id\":1,\"tool\":\"apply_patch\",\"arguments\":\"{\\\"input\\\":1}\"}", NULL);
        eq_int(r.tool, UNIFIED_APPLY_PATCH);
        eq_slice(r.arguments, S("{\"input\":1}"));
        eq_int(read_line(&a, "{\"id\":1,\"tool\":\"list_sessions\"}", NULL).kind, REQUEST_LIST_SESSIONS);
        eq_int(read_line(&a, "{\"id\":1,\"tool\":\"list_grants\"}", NULL).kind, REQUEST_LIST_GRANTS);
}

TEST(cancels_and_answers_are_read)
{
        _arena_ struct arena a = ARENA_INIT;
        struct request r = read_line(&a, "{\"id\":2,\"cancel\":\"x\"}", NULL);
        eq_int(r.kind, REQUEST_CANCEL);
        eq_str(r.cancelled, "\"x\"");
        r = read_line(&a, "{\"answer\":{\"question_id\":7,\"decision\":\"approved_for_session\"}}", NULL);
        eq_int(r.kind, REQUEST_ANSWER);
        ok(!r.id);
        eq_u64(r.question_id, 7);
        eq_int(r.answer, APPROVAL_FOR_SESSION);
        r = read_line(&a, "{\"answer\":{\"question_id\":7,\"decision\":\"denied\"},\"id\":0}", NULL);
        eq_int(r.answer, APPROVAL_NO);
        eq_str(r.id, "0");
}

TEST(bad_lines_are_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        (void)read_line(&a, "[]", "a line must be an object");
        (void)read_line(&a, "{}", "a line needs one of `tool`, `cancel` and `answer`");
        (void)read_line(&a, "{\"id\":[],\"tool\":\"x\"}",
                        "`id` must be an integer or a string of at most 256 bytes");
        (void)read_line(&a, "{\"id\":1.5,\"tool\":\"x\"}",
                        "`id` must be an integer or a string of at most 256 bytes");
        (void)read_line(&a, "{\"tool\":\"exec_command\"}", "a call needs an `id`");
        struct request r = read_line(&a, "{\"id\":9,\"tool\":\"x\"}", "unknown tool `x`");
        eq_str(r.id, "9"); /* the error can be sent with the id of the call */
        (void)read_line(&a, "{\"id\":9,\"tool\":\"exec_command\",\"args\":{}}", "unknown member `args`");
        (void)read_line(&a, "{\"id\":9,\"tool\":4}", "`tool` must be a string");
        (void)read_line(&a, "{\"id\":9,\"cancel\":null}",
                        "`cancel` must be an integer or a string of at most 256 bytes");
        (void)read_line(&a, "{\"answer\":1}", "`answer` must be an object");
        (void)read_line(&a, "{\"answer\":{\"question_id\":\"7\",\"decision\":\"denied\"}}",
                        "`question_id` must be an integer");
        (void)read_line(&a, "{\"answer\":{\"question_id\":7,\"decision\":\"yes\"}}",
                        "`decision` must be `approved`, `approved_for_session` or `denied`");
}

TEST(a_text_that_is_no_json_is_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        struct request r;
        struct err err = ERR_INIT;
        char line[1 + BUF_PADDING] = "x";
        ok(request_read(&a, slice_from(line, 1), &r, &err) < 0);
        ok(strncmp(err.text, "not JSON: ", 10) == 0 && !r.id);
}

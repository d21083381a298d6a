/* intercept_test: what clients may say about the interception of program starts, and how mistakes are told. */
#include "proto/intercept.h"

#include "base/limits.h"
#include "proto/process.h"
#include "proto/test_internal.h"
#include "unit.h"

#define START "'processId':'p','argv':['a'],'cwd':'/','env':{},'tty':false"

static const char *decode_start(struct arena *a, const char *member, struct process_start *ret)
{
        struct err *err = arena_new(a, struct err);

        *ret = (struct process_start){ 0 };
        int r = test_decode(a, process_start_decode, arena_printf(a, "{" START ",%s}", member), ret, err);
        eq_int(r, err->code);
        return err->text;
}

TEST(a_start_without_the_member_is_not_intercepted)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_start in;

        eq_str(decode_start(&a, "'intercept':null", &in), "");
        ok(!in.has_intercept);
}

TEST(the_options_have_defaults)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_start in;

        eq_str(decode_start(&a, "'intercept':{'rules':[]}", &in), "");
        ok(in.has_intercept && in.intercept.rule_count == 0 && !in.intercept.reports);
        eq_int(in.intercept.scope, INTERCEPT_SCOPE_ALL);
        ok(!in.intercept.has_full_names && !in.intercept.denies_prompts);
        eq_int(in.intercept.rest, INTERCEPT_REST_HEURISTIC);
}

TEST(all_options_are_taken)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_start in;

        eq_str(decode_start(&a,
                            "'intercept':{'rules':[{'name':'x','text':'y\\n'},{'name':'','text':''}],"
                            "'scope':'shell','programNames':'full','onPrompt':'deny','onUnmatched':'ask',"
                            "'report':true}",
                            &in),
               "");
        eq_u64(in.intercept.rule_count, 2);
        eq_str(in.intercept.rules[0].name, "x");
        eq_slice(in.intercept.rules[0].text, S("y\n"));
        eq_str(in.intercept.rules[1].name, "");
        eq_int(in.intercept.scope, INTERCEPT_SCOPE_SHELL);
        ok(in.intercept.has_full_names && in.intercept.denies_prompts);
        ok(in.intercept.reports);
        eq_int(in.intercept.rest, INTERCEPT_REST_ASK);
        eq_str(decode_start(&a, "'intercept':{'rules':[],'scope':'all','onUnmatched':'run'}", &in), "");
        eq_int(in.intercept.rest, INTERCEPT_REST_RUN);
        eq_str(decode_start(&a, "'intercept':{'rules':[],'scope':'below'}", &in), "");
        eq_int(in.intercept.scope, INTERCEPT_SCOPE_BELOW);
}

TEST(a_mistake_in_the_options_is_named)
{
        static const struct {
                const char *member, *message;
        } rows[] = {
                { "[]", "intercept: expected an object" },
                { "'all'", "intercept: expected an object" },
                { "{}", "missing field `rules`" },
                { "{'rules':'x'}", "rules: invalid type: string \"x\", expected a sequence" },
                { "{'rules':[7]}", "rules: expected objects with name and text" },
                { "{'rules':[{'text':''}]}", "missing field `name`" },
                { "{'rules':[{'name':'n'}]}", "missing field `text`" },
                { "{'rules':[{'name':'a\\u0000','text':''}]}",
                  "name: must be at most 4096 bytes without a nul byte" },
                { "{'rules':[],'scope':'some'}",
                  "scope: unknown variant `some`, expected one of `all`, `shell`, `below`" },
                { "{'rules':[],'programNames':'both'}",
                  "programNames: unknown variant `both`, expected `base` or `full`" },
                { "{'rules':[],'onPrompt':'run'}",
                  "onPrompt: unknown variant `run`, expected `ask` or `deny`" },
                { "{'rules':[],'onUnmatched':'deny'}",
                  "onUnmatched: unknown variant `deny`, expected one of `heuristic`, `run`, `ask`" },
                { "{'rules':[],'report':'yes'}", "report: invalid type: string \"yes\", expected a boolean" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct process_start in;
                eq_str(decode_start(&a, arena_printf(&a, "'intercept':%s", rows[i].member), &in),
                       rows[i].message);
        }
}

TEST(too_many_texts_are_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf list = BUF_INIT(100000);
        struct process_start in;

        for (int i = 0; i <= LIMIT_RULES_FILES; i++)
                ok(buf_printf(&list, "%s{'name':'n','text':''}", i ? "," : "") == 0);
        eq_str(decode_start(&a, arena_printf(&a, "'intercept':{'rules':[%s]}", list.p), &in),
               "rules: at most 256 texts");
}

TEST(decisions_are_taken_and_mistakes_in_them_named)
{
        _arena_ struct arena a = ARENA_INIT;
        struct process_exec_decide in = { 0 };
        struct err err = ERR_INIT;
        static const struct {
                const char *text, *message;
        } rows[] = {
                { "{'processId':'p'}", "missing field `requestId`" },
                { "{'processId':'p','requestId':[]}",
                  "requestId: invalid type: sequence, expected a string" },
                { "{'processId':'p','requestId':'1'}", "missing field `decision`" },
                { "{'processId':'p','requestId':'1','decision':'ask'}",
                  "decision: unknown variant `ask`, expected one of `run`, `escalate`, `deny`" },
                { "{'processId':'p','requestId':'1','decision':'run','remember':'always'}",
                  "remember: unknown variant `always`, expected `process`" },
                { "{'processId':'p','requestId':'1','decision':'run','reason':7}",
                  "reason: invalid type: number, expected a string" },
        };

        eq_int(test_decode(&a, process_exec_decide_decode,
                           "{'processId':'p','requestId':'1','decision':'deny','reason':'no',"
                           "'remember':'process','sessionId':'s'}",
                           &in, &err),
               0);
        eq_slice(in.request_id, S("1"));
        eq_slice(in.reason, S("no"));
        eq_slice(in.session_id, S("s"));
        ok(in.decision == EXEC_DECIDED_DENY && in.is_remembered);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                err = ERR_INIT;
                ok(test_decode(&a, process_exec_decide_decode, rows[i].text, &in, &err) < 0);
                eq_str(err.text, rows[i].message);
        }
        const char *reason = arena_printf(&a, "%*d", LIMIT_INTERCEPT_REASON_BYTES + 1, 1);
        const char *text =
                arena_printf(&a, "{'processId':'p','requestId':'1','decision':'deny','reason':'%s'}", reason);
        err = ERR_INIT;
        ok(test_decode(&a, process_exec_decide_decode, text, &in, &err) < 0);
        eq_str(err.text, "reason: must be at most 4096 bytes");
}

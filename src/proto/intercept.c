/* intercept: decodes what clients say about the interception of program starts. */
#include "proto/intercept.h"

#include "base/limits.h"

#include <limits.h>

static void decode_text(struct decoder *outer, const struct json *value, struct intercept_rules_text *ret)
{
        struct slice name = { 0 };
        struct decoder d;

        if (value->type != JSON_OBJECT) {
                decode_fail(outer, "rules: expected objects with name and text");
                return;
        }
        decode_begin_inside(&d, outer, value, "ExecRulesText");
        decode_string(&d, "name", &name);
        decode_string(&d, "text", &ret->text);
        if (!d.has_failed && (name.n > LIMIT_RULES_NAME_BYTES || slice_has_nul(name)))
                decode_fail(&d, "name: must be at most %d bytes without a nul byte", LIMIT_RULES_NAME_BYTES);
        if (!d.has_failed)
                ret->name = arena_dup(d.arena, name);
        decode_end_inside(outer, &d);
}

static void decode_texts(struct decoder *d, struct process_intercept *ret)
{
        const struct json *list = decode_array(d, "rules");
        size_t count = list ? json_count(d->doc, list) : 0, n = 0;

        if (count > LIMIT_RULES_FILES) {
                decode_fail(d, "rules: at most %d texts", LIMIT_RULES_FILES);
                return;
        }
        struct intercept_rules_text *texts = arena_zalloc(d->arena, (count + 1) * sizeof(*texts));
        if (list) {
                json_each (it, d->doc, list) {
                        decode_text(d, it, &texts[n++]);
                        if (d->has_failed)
                                return;
                }
        }
        ret->rules = texts;
        ret->rule_count = n;
}

/* The path goes into variables of the command. */
static void decode_wrapper(struct decoder *d, struct process_intercept *ret)
{
        struct slice path = { 0 };

        decode_optional_string_or_null(d, "wrapper", &path);
        if (d->has_failed || !path.p)
                return;
        if (ret->mechanism != INTERCEPT_MECHANISM_WRAPPER)
                decode_fail(d, "wrapper: only with the mechanism wrapper");
        else if (path.n == 0 || path.p[0] != '/' || path.n >= PATH_MAX || slice_has_nul(path))
                decode_fail(d, "wrapper: must be an absolute path");
        else
                ret->wrapper = arena_dup(d->arena, path);
}

/* Decodes a member that may be absent; then it is the first of `names`. */
static size_t decode_choice(struct decoder *d, const char *key, const char *const *names, size_t count)
{
        size_t choice = 0;
        if (decode_peek(d, key))
                decode_variant(d, key, names, count, &choice);
        return choice;
}

void process_intercept_decode(struct decoder *outer, const struct json *value, struct process_intercept *ret)
{
        static const char *const scopes[] = { [INTERCEPT_SCOPE_ALL] = "all",
                                              [INTERCEPT_SCOPE_SHELL] = "shell",
                                              [INTERCEPT_SCOPE_BELOW] = "below" };
        static const char *const names[] = { "base", "full" };
        static const char *const prompts[] = { "ask", "deny" };
        static const char *const rests[] = { [INTERCEPT_REST_HEURISTIC] = "heuristic",
                                             [INTERCEPT_REST_RUN] = "run",
                                             [INTERCEPT_REST_ASK] = "ask" };
        static const char *const mechanisms[] = { [INTERCEPT_MECHANISM_ANY] = "any",
                                                  [INTERCEPT_MECHANISM_SECCOMP] = "seccomp",
                                                  [INTERCEPT_MECHANISM_PRELOAD] = "preload",
                                                  [INTERCEPT_MECHANISM_WRAPPER] = "wrapper" };
        struct decoder d;

        if (!outer->has_failed && value->type != JSON_OBJECT) {
                decode_fail(outer, "intercept: expected an object");
                return;
        }
        decode_begin_inside(&d, outer, value, "ExecIntercept");
        decode_own_members(&d);
        decode_texts(&d, ret);
        ret->scope = (enum intercept_scope_wish)decode_choice(&d, "scope", scopes, ARRAY_LEN(scopes));
        ret->has_full_names = decode_choice(&d, "programNames", names, ARRAY_LEN(names)) == 1;
        ret->denies_prompts = decode_choice(&d, "onPrompt", prompts, ARRAY_LEN(prompts)) == 1;
        ret->rest = (enum intercept_rest)decode_choice(&d, "onUnmatched", rests, ARRAY_LEN(rests));
        decode_optional_bool(&d, "report", &ret->reports);
        ret->mechanism =
                (enum intercept_mechanism)decode_choice(&d, "mechanism", mechanisms, ARRAY_LEN(mechanisms));
        decode_wrapper(&d, ret);
        decode_end_inside(outer, &d);
}

int process_exec_decide_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                               void *ret, struct err *err)
{
        static const char *const decisions[] = {
                [EXEC_DECIDED_RUN] = "run", [EXEC_DECIDED_ESCALATE] = "escalate", [EXEC_DECIDED_DENY] = "deny"
        };
        static const char *const spans[] = { "process" };
        struct process_exec_decide *in = ret;
        struct decoder d;
        size_t decision = 0, span;

        decode_begin(&d, a, doc, params, "ExecDecideParams", err);
        decode_string(&d, "processId", &in->process_id);
        decode_own_members(&d);
        decode_string(&d, "requestId", &in->request_id);
        decode_variant(&d, "decision", decisions, ARRAY_LEN(decisions), &decision);
        in->decision = (enum exec_decided)decision;
        decode_optional_string_or_null(&d, "reason", &in->reason);
        if (in->reason.n > LIMIT_INTERCEPT_REASON_BYTES)
                decode_fail(&d, "reason: must be at most %d bytes", LIMIT_INTERCEPT_REASON_BYTES);
        if (decode_peek(&d, "remember")) {
                decode_variant(&d, "remember", spans, ARRAY_LEN(spans), &span);
                in->is_remembered = true;
        }
        decode_optional_string_or_null(&d, "sessionId", &in->session_id);
        return decode_end(&d);
}

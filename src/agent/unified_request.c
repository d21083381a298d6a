/* unified_request: reads one line to `farhand unified`. */
#include "agent/unified_request.h"

#include "base/limits.h"
#include "wire/json.h"
#include "wire/jsonw.h"

#include <errno.h>
#include <inttypes.h>

/* Returns an id as JSON in its one spelling, or NULL when it is none. */
static const char *read_id(struct arena *a, const struct json_doc *d, const struct json *v)
{
        int64_t number;
        _buf_ struct buf text = BUF_INIT(6 * LIMIT_UNIFIED_ID_BYTES + 2);
        struct jsonw w;
        if (v->type == JSON_NUMBER && json_i64(d, v, &number) == 0)
                return arena_printf(a, "%" PRId64, number);
        if (v->type != JSON_STRING)
                return NULL;
        struct slice s = json_string(a, d, v);
        jsonw_begin(&w, &text);
        jsonw_string(&w, s);
        return s.n <= LIMIT_UNIFIED_ID_BYTES && jsonw_end(&w) == 0 ? arena_dup(a, buf_slice(&text)) : NULL;
}

static int bad_id(struct err *err, const char *name)
{
        return err_set(err, 0, -EINVAL, "`%s` must be an integer or a string of at most %d bytes", name,
                       LIMIT_UNIFIED_ID_BYTES);
}

/* Refuses members that are not in the list, so that a misspelled one is noticed. */
static int check_members(struct arena *a, const struct json_doc *d, const struct json *object,
                         const char *const *names, size_t count, struct err *err)
{
        json_each (key, d, object) {
                struct slice name = json_string(a, d, key);
                if (slice_find(name, names, count) == count)
                        return err_set(err, 0, -EINVAL, "unknown member `%.*s`",
                                       (int)MIN(name.n, (size_t)100), name.p);
        }
        return 0;
}

static int read_call(struct arena *a, const struct json_doc *d, const struct json *root, struct request *r,
                     struct err *err)
{
        static const char *const names[] = { "id", "tool", "arguments" };
        const struct json *tool = json_get(d, root, S("tool")),
                          *arguments = json_get(d, root, S("arguments"));
        if (check_members(a, d, root, names, ARRAY_LEN(names), err) < 0)
                return err->code;
        if (!r->id)
                return err_set(err, 0, -EINVAL, "a call needs an `id`");
        if (tool->type != JSON_STRING)
                return err_set(err, 0, -EINVAL, "`tool` must be a string");
        struct slice name = json_string(a, d, tool);
        r->arguments = arguments ? json_raw(d, arguments) : S("{}");
        if (arguments && arguments->type == JSON_STRING)
                r->arguments = json_string(
                        a, d, arguments); /* some models write the object of the arguments into a string */
        if (slice_eq(name, S("list_sessions")))
                r->kind = REQUEST_LIST_SESSIONS;
        else if (slice_eq(name, S("list_grants")))
                r->kind = REQUEST_LIST_GRANTS;
        else if (!unified_tool_find(name, &r->tool) || r->tool >= UNIFIED_SHELL)
                return err_set(err, 0, -EINVAL, "unknown tool `%.*s`", (int)MIN(name.n, (size_t)100), name.p);
        return 0;
}

static int read_cancel(struct arena *a, const struct json_doc *d, const struct json *root, struct request *r,
                       struct err *err)
{
        static const char *const names[] = { "id", "cancel" };
        r->kind = REQUEST_CANCEL;
        if (check_members(a, d, root, names, ARRAY_LEN(names), err) < 0)
                return err->code;
        r->cancelled = read_id(a, d, json_get(d, root, S("cancel")));
        return r->cancelled ? 0 : bad_id(err, "cancel");
}

static int read_answer(struct arena *a, const struct json_doc *d, const struct json *root, struct request *r,
                       struct err *err)
{
        static const char *const names[] = { "id", "answer" }, *const inner[] = { "question_id", "decision" },
                                 *const decisions[] = { [APPROVAL_NO] = "denied",
                                                        [APPROVAL_ONCE] = "approved",
                                                        [APPROVAL_FOR_SESSION] = "approved_for_session" };
        const struct json *answer = json_get(d, root, S("answer"));
        r->kind = REQUEST_ANSWER;
        if (check_members(a, d, root, names, ARRAY_LEN(names), err) < 0)
                return err->code;
        if (answer->type != JSON_OBJECT)
                return err_set(err, 0, -EINVAL, "`answer` must be an object");
        if (check_members(a, d, answer, inner, ARRAY_LEN(inner), err) < 0)
                return err->code;
        const struct json *question = json_get(d, answer, S("question_id")),
                          *decision = json_get(d, answer, S("decision"));
        if (!question || question->type != JSON_NUMBER || json_u64(d, question, &r->question_id) < 0)
                return err_set(err, 0, -EINVAL, "`question_id` must be an integer");
        size_t which = decision && decision->type == JSON_STRING
                               ? slice_find(json_string(a, d, decision), decisions, ARRAY_LEN(decisions))
                               : ARRAY_LEN(decisions);
        if (which == ARRAY_LEN(decisions))
                return err_set(err, 0, -EINVAL,
                               "`decision` must be `approved`, `approved_for_session` or `denied`");
        r->answer = (enum approval_answer)which;
        return 0;
}

int request_read(struct arena *a, struct slice line, struct request *ret, struct err *err)
{
        struct json_doc doc;
        struct json_error bad;
        *ret = (struct request){ 0 };
        if (json_parse(a, line, &doc, &bad) < 0)
                return err_set(err, 0, -EINVAL, "not JSON: %s", bad.text);
        const struct json *root = json_root(&doc);
        if (root->type != JSON_OBJECT)
                return err_set(err, 0, -EINVAL, "a line must be an object");
        const struct json *id = json_get(&doc, root, S("id"));
        ret->id = id ? read_id(a, &doc, id) : NULL;
        if (id && !ret->id)
                return bad_id(err, "id");
        if (json_get(&doc, root, S("tool")))
                return read_call(a, &doc, root, ret, err);
        if (json_get(&doc, root, S("cancel")))
                return read_cancel(a, &doc, root, ret, err);
        if (json_get(&doc, root, S("answer")))
                return read_answer(a, &doc, root, ret, err);
        return err_set(err, 0, -EINVAL, "a line needs one of `tool`, `cancel` and `answer`");
}

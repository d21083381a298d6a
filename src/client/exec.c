/* exec: the programs of an intercepted command: asks the server for interception, tells what it asks, and answers. */
#include "client/client.h"

#include "base/base64.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

void client_intercept_write(struct jsonw *w, const struct farhand_intercept *given)
{
        struct farhand_intercept i = { 0 };
        memcpy(&i, given, MIN(given->size, sizeof(i)));
        const struct {
                const char *key, *value;
        } choices[] = { { "scope", i.scope },
                        { "programNames", i.program_names },
                        { "onPrompt", i.on_prompt },
                        { "onUnmatched", i.on_unmatched } };
        jsonw_key(w, "intercept");
        jsonw_object(w);
        jsonw_key(w, "rules");
        jsonw_array(w);
        for (size_t k = 0; k < i.rule_count; k++) {
                jsonw_object(w);
                jsonw_member_str(w, "name", i.rules[k].name);
                jsonw_member_str(w, "text", i.rules[k].text);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
        for (size_t k = 0; k < ARRAY_LEN(choices); k++)
                if (choices[k].value)
                        jsonw_member_str(w, choices[k].key, choices[k].value);
        jsonw_member_bool(w, "report", i.report);
        jsonw_object_end(w);
}

/* ---- what the server asks ---- */

/* Returns the bytes of a base64 text, in the arena, as a C string; NULL when it is no base64, or has a NUL. */
static const char *decode(struct arena *a, struct slice text)
{
        char *bytes = arena_alloc(a, base64_decoded_max(text.n) + 1);
        ssize_t n = base64_decode(bytes, text.p, text.n, NULL);
        if (n < 0 || memchr(bytes, 0, (size_t)n))
                return NULL;
        bytes[n] = '\0';
        return bytes;
}

/* Returns a text, which the server may send in base64 under another key in addition. */
static const char *get_bytes(struct arena *a, const struct rpc_message *m, struct slice key,
                             struct slice bytes_key)
{
        struct slice bytes = member_string(a, &m->doc, m->params, bytes_key);
        return bytes.p ? decode(a, bytes) : member_text(a, &m->doc, m->params, key);
}

static const char *const *get_argv(struct arena *a, const struct rpc_message *m)
{
        const struct json *bytes = json_get(&m->doc, m->params, S("argvBase64"));
        const struct json *list = bytes ? bytes : json_get(&m->doc, m->params, S("argv"));
        if (!list || list->type != JSON_ARRAY)
                return NULL;
        const char **argv = arena_alloc(a, (json_count(&m->doc, list) + 1) * sizeof(*argv));
        size_t n = 0;
        json_each (it, &m->doc, list) {
                if (it->type != JSON_STRING)
                        return NULL;
                struct slice word = json_string(a, &m->doc, it);
                const char *text = bytes ? decode(a, word) : slice_has_nul(word) ? NULL : arena_dup(a, word);
                if (!text)
                        return NULL;
                argv[n++] = text;
        }
        argv[n] = NULL;
        return argv;
}

static void get_rule(struct arena *a, const struct rpc_message *m, struct farhand_exec *ret)
{
        const struct json *rule = json_get(&m->doc, m->params, S("rule"));
        if (!rule || rule->type != JSON_OBJECT)
                return;
        const char *name = member_text(a, &m->doc, rule, S("name"));
        ret->rule_name = name ? name : "";
        (void)member_u64(&m->doc, rule, S("line"), &ret->rule_line);
        ret->justification = member_text(a, &m->doc, rule, S("justification"));
}

static const char *const decisions[] = {
        [FARHAND_EXEC_ASK] = "ask",
        [FARHAND_EXEC_RUN] = "run",
        [FARHAND_EXEC_ESCALATE] = "escalate",
        [FARHAND_EXEC_DENY] = "deny",
        [FARHAND_EXEC_WITHDRAWN] = "withdrawn",
};

static bool exec_read(struct arena *a, const struct rpc_message *m, struct farhand_exec *ret)
{
        size_t decision = slice_find(member_string(a, &m->doc, m->params, S("decision")), decisions,
                                     ARRAY_LEN(decisions));
        *ret = (struct farhand_exec){
                .request_id = member_text(a, &m->doc, m->params, S("requestId")),
                .file = get_bytes(a, m, S("file"), S("fileBase64")),
                .argv = get_argv(a, m),
                .cwd = get_bytes(a, m, S("cwd"), S("cwdBase64")),
        };
        if (decision == ARRAY_LEN(decisions) || !ret->file || !ret->argv || !ret->cwd)
                return false;
        ret->decision = (enum farhand_exec_decision)decision;
        (void)member_i64(&m->doc, m->params, S("pid"), &ret->pid);
        (void)member_u64(&m->doc, m->params, S("omittedBytes"), &ret->omitted_bytes);
        get_rule(a, m, ret);
        return true;
}

void client_process_on_exec(struct farhand_process *p, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        struct farhand_exec exec;
        const char *id = member_text(&a, &m->doc, m->params, S("requestId"));
        bool is_good = exec_read(&a, m, &exec);
        if (is_good && p->events.on_exec)
                p->events.on_exec(p, p->arg, &exec);
        else if (id && (!is_good || exec.decision == FARHAND_EXEC_ASK) && !p->is_adopted)
                (void)farhand_process_decide(p, id, FARHAND_EXEC_DENY, "nobody can be asked", false, NULL);
}

/* ---- answers ---- */

int client_decision_check(enum farhand_exec_decision decision, struct farhand_error *ret_error)
{
        return decision == FARHAND_EXEC_RUN || decision == FARHAND_EXEC_ESCALATE ||
                               decision == FARHAND_EXEC_DENY
                       ? 0
                       : error_set(ret_error, -EINVAL, "a decision is run, escalate or deny");
}

void client_decision_write(struct jsonw *w, const char *request_id, enum farhand_exec_decision decision,
                           const char *reason, bool remember)
{
        jsonw_member_str(w, "requestId", request_id);
        jsonw_member_str(w, "decision", decisions[decision]);
        jsonw_member_str(w, "reason", reason);
        jsonw_member_str(w, "remember", remember ? "process" : NULL);
}

int farhand_process_decide(struct farhand_process *p, const char *request_id,
                           enum farhand_exec_decision decision, const char *reason, bool remember,
                           struct farhand_error *ret_error)
{
        struct jsonw w;
        if (p->state == PROCESS_OVER)
                return error_set(ret_error, -ESRCH, "process %s is over", p->id);
        int r = client_decision_check(decision, ret_error);
        if (r < 0)
                return r;
        struct call *call = call_begin(p->client, "process/execDecide", &w, ret_error);
        if (!call)
                return p->client->state == FARHAND_FAILED ? p->client->failure.code : -EAGAIN;
        jsonw_object(&w);
        jsonw_member_str(&w, "processId", p->id);
        client_decision_write(&w, request_id, decision, reason, remember);
        jsonw_object_end(&w);
        return call_end(p->client, call, &w, FARHAND_REPEAT, NULL, p, ret_error);
}

/* questions: sends questions, withdraws them, and reads the answers. */
#include "mcp/questions.h"

#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/rules.h"
#include "mcp/question_text.h"
#include "mcp/reply.h"

#define ONCE "once"
#define FOR_SESSION "session"
#define ALWAYS "always"
#define DENY "deny"

/* A question that waits for its answer. There are at most LIMIT_APPROVAL_QUESTIONS. */
struct question {
        struct list link; /* questions::open */
        uint64_t request; /* the id of our request */
        uint64_t route;
        uint64_t id; /* approval_question::id */
        bool is_program;
        struct arena strings;
        const char *const
                *words; /* what "always" allows; NULL: there is no such answer, or it is about a host */
        const struct exec_network_addition *host; /* the same of a host */
};

struct questions {
        struct outbox *outbox;
        struct approvals *approvals;
        const struct calls *calls;
        struct questions_options options;
        bool can_ask;
        struct list open; /* question::link */
};

/* ---- asking ---- */

#define SCHEMA(more_about, more_value, more_name)                                                           \
        "{\"type\":\"object\",\"properties\":{\"decision\":{\"type\":\"string\",\"title\":\"Decision\","    \
        "\"description\":\"once: only now; session: also when exactly this is asked for again; " more_about \
        "deny: no\",\"enum\":[\"" ONCE "\",\"" FOR_SESSION "\"," more_value "\"" DENY                       \
        "\"],\"enumNames\":[\"Yes, once\",\"Yes, for this session\"," more_name                             \
        "\"No\"]}},\"required\":[\"decision\"]}"

static const char schema[] = SCHEMA("", "", ""),
                  schema_always[] = SCHEMA("always: a rule allows it from now on; ", "\"" ALWAYS "\",",
                                           "\"Yes, always (adds a rule)\","),
                  schema_brief[] =
                          "{\"type\":\"object\",\"title\":\"Execution Permission Request\",\"properties\":{"
                          "\"reason\":{\"type\":\"string\",\"description\":\"Why, if you want to say\"}}}";

static const char *const *copy_words(struct arena *a, const char *const *words)
{
        size_t n = 0;
        while (words[n])
                n++;
        const char **copy = arena_zalloc(a, (n + 1) * sizeof(*copy));
        for (size_t i = 0; i < n; i++)
                copy[i] = arena_dup(a, slice_from_str(words[i]));
        return copy;
}

static struct exec_network_addition host_of(const struct approval_action *action)
{
        return (struct exec_network_addition){
                .host = action->host,
                .protocol = rules_network_protocol(action->protocol),
                .port = action->has_port_rules ? action->port : 0,
                .decision = EXEC_ALLOW,
        };
}

static const struct exec_network_addition *copy_host(struct arena *a, const struct approval_action *action)
{
        struct exec_network_addition *copy = arena_new(a, struct exec_network_addition);
        *copy = host_of(action);
        copy->host = arena_dup(a, slice_from_str(action->host));
        return copy;
}

static struct question *question_new(struct questions *q, const struct approval_question *question,
                                     bool has_always)
{
        struct question *one = mem_new(struct question);
        one->request = ++q->outbox->last_id;
        one->id = question->id;
        one->route = calls_route(q->calls, question->action->call_id);
        one->is_program = question->action->is_program;
        if (has_always && question->action->host)
                one->host = copy_host(&one->strings, question->action);
        else if (has_always)
                one->words = copy_words(&one->strings, question->action->argv);
        list_append(&q->open, &one->link);
        return one;
}

/* Answers without a question. */
static void answer_unasked(struct questions *q, const struct approval_question *question)
{
        if (q->options.unasked == APPROVAL_NO && question->action->is_program)
                (void)approvals_refuse(q->approvals, question->id, "approval is not available");
        else
                (void)approvals_answer(q->approvals, question->id, q->options.unasked);
}

/* Says what "always" would add, if the action is one that a rule can allow. */
static struct question_style style_of(const struct questions *q, struct arena *a,
                                      const struct approval_question *question)
{
        const struct rulebook *b = q->options.rulebook;
        bool is_brief = q->options.is_brief && question->action->is_program;
        bool has_rule = b && question->action->argv && !is_brief && !question->permissions;
        if (has_rule && question->action->host) {
                const struct exec_network_addition host = host_of(question->action);
                const char *line = rulebook_host_line(b, a, &host);
                return (struct question_style){ .always_rule = line, .always_file = rulebook_file(b) };
        }
        return (struct question_style){
                .is_brief = is_brief,
                .always_rule = has_rule ? rulebook_line(b, a, question->action->argv) : NULL,
                .always_file = has_rule ? rulebook_file(b) : NULL,
        };
}

static void ask(void *arg, const struct approval_question *question)
{
        struct questions *q = arg;
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX), text = BUF_INIT(MCP_MESSAGE_MAX / 8);
        struct jsonw w;
        if (!q->can_ask) {
                answer_unasked(q, question);
                return;
        }
        const struct question_style style = style_of(q, &a, question);
        if (question_text_write(&text, question, &style) < 0) {
                (void)approvals_answer(q->approvals, question->id, APPROVAL_NO);
                return;
        }
        const struct question *one = question_new(q, question, style.always_rule != NULL);
        reply_request_begin(&w, &out, one->request, "elicitation/create");
        jsonw_object(&w);
        if (style.is_brief) {
                jsonw_key(&w, "_meta");
                jsonw_object(&w);
                jsonw_member_u64(&w, "progressToken", one->request);
                jsonw_object_end(&w);
        }
        jsonw_member_string(&w, "message", slice_trim(buf_slice(&text)));
        jsonw_key(&w, "requestedSchema");
        jsonw_raw(&w, slice_from_str(style.is_brief      ? schema_brief
                                     : style.always_rule ? schema_always
                                                         : schema));
        jsonw_object_end(&w);
        reply_end(&w);
        outbox_send(q->outbox, one->route, &out);
}

static void question_free(struct question *one)
{
        list_remove(&one->link);
        arena_release(&one->strings);
        free(one);
}

static void withdraw(void *arg, uint64_t question_id)
{
        struct questions *q = arg;
        struct question *one;
        list_each (one, &q->open, link) {
                if (one->id != question_id)
                        continue;
                _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
                struct jsonw w;
                reply_notification_begin(&w, &out, "notifications/cancelled");
                jsonw_object(&w);
                jsonw_member_u64(&w, "requestId", one->request);
                jsonw_member_str(&w, "reason", "the question needs no answer any more");
                jsonw_object_end(&w);
                reply_end(&w);
                outbox_send(q->outbox, one->route, &out);
                question_free(one);
        }
}

/* ---- answers ---- */

static struct slice text_of(struct arena *a, const struct json_doc *d, const struct json *object,
                            struct slice key)
{
        const struct json *v = json_get(d, object, key);
        return v && v->type == JSON_STRING ? json_string(a, d, v) : S("");
}

/* Adds the rule of "always". Should that fail, the yes holds for this session. */
static void add_rule(const struct questions *q, const struct question *one)
{
        struct err err = ERR_INIT;
        int r = one->host ? rulebook_add_host(q->options.rulebook, one->host, &err)
                          : rulebook_add(q->options.rulebook, one->words, &err);
        if (r < 0)
                log_error("the rule is not added", "why=%s", log_quote(slice_from_str(err.text)));
}

static enum approval_answer read_answer(const struct questions *q, struct arena *a,
                                        const struct question *one, const struct rpc_message *m)
{
        const struct json_doc *d = &m->doc;
        if (m->kind != RPC_RESPONSE || !slice_eq(text_of(a, d, m->result, S("action")), S("accept")))
                return APPROVAL_NO;
        if (q->options.is_brief && one->is_program)
                return APPROVAL_ONCE;
        struct slice word = text_of(a, d, json_get(d, m->result, S("content")), S("decision"));
        bool is_always = (one->words || one->host) && slice_eq(word, S(ALWAYS));
        if (is_always)
                add_rule(q, one);
        return slice_eq(word, S(ONCE))                       ? APPROVAL_ONCE
               : is_always || slice_eq(word, S(FOR_SESSION)) ? APPROVAL_FOR_SESSION
                                                             : APPROVAL_NO;
}

/* The words reach whoever waits for the program. */
static const char *refusal(struct arena *a, const struct rpc_message *m)
{
        bool is_cancel =
                m->kind == RPC_RESPONSE && slice_eq(text_of(a, &m->doc, m->result, S("action")), S("cancel"));
        return is_cancel                 ? "User cancelled execution"
               : m->kind == RPC_RESPONSE ? "User declined execution"
                                         : "approval is not available";
}

static void take(struct questions *q, struct arena *a, struct question *one, const struct rpc_message *m)
{
        enum approval_answer answer = read_answer(q, a, one, m);
        uint64_t id = one->id;
        bool is_program = one->is_program;
        question_free(one);
        if (answer == APPROVAL_NO && is_program)
                (void)approvals_refuse(q->approvals, id, refusal(a, m));
        else
                (void)approvals_answer(q->approvals, id, answer);
}

bool questions_take(struct questions *q, struct arena *a, const struct rpc_message *m)
{
        struct question *one;
        if (m->id.is_string)
                return false;
        list_each (one, &q->open, link) {
                if (m->id.number != (int64_t)one->request)
                        continue;
                take(q, a, one, m);
                return true;
        }
        return false;
}

static bool has_allowed(void *arg, const struct approval_action *action)
{
        const struct questions *q = arg;
        return q->options.rulebook && rulebook_allows(q->options.rulebook, action->argv);
}

/* Since forms are not the only kind of question, a client that names kinds must name forms. */
void questions_meet(struct questions *q, const struct json_doc *d, const struct json *capabilities)
{
        const struct json *can = json_get(d, capabilities, S("elicitation"));
        if (can && can->type == JSON_OBJECT)
                q->can_ask = json_get(d, can, S("form")) || !json_get(d, can, S("url"));
}

bool questions_can_ask(const struct questions *q)
{
        return q->can_ask;
}

struct approvals_asker questions_asker(struct questions *q)
{
        return (struct approvals_asker){
                .ask = ask, .withdraw = withdraw, .has_allowed = has_allowed, .arg = q
        };
}

void questions_use(struct questions *q, struct approvals *approvals, const struct calls *calls)
{
        q->approvals = approvals;
        q->calls = calls;
}

struct questions *questions_new(struct outbox *outbox, const struct questions_options *options)
{
        struct questions *q = mem_new(struct questions);
        q->outbox = outbox;
        q->options = *options;
        list_init(&q->open);
        return q;
}

void questions_free(struct questions *q)
{
        if (!q)
                return;
        while (!list_is_empty(&q->open))
                question_free(list_first(&q->open, struct question, link));
        free(q);
}

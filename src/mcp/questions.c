/* questions: sends questions, withdraws them, and reads the answers. */
#include "mcp/questions.h"

#include "base/limits.h"
#include "base/list.h"
#include "base/mem.h"
#include "mcp/question_text.h"
#include "mcp/reply.h"

#define ONCE "once"
#define FOR_SESSION "session"
#define DENY "deny"

/* A question that waits for its answer. There are at most LIMIT_APPROVAL_QUESTIONS. */
struct question {
        struct list link; /* questions::open */
        uint64_t request; /* the id of our request */
        uint64_t route;
        uint64_t id; /* approval_question::id */
};

struct questions {
        struct outbox *outbox;
        struct approvals *approvals;
        const struct calls *calls;
        enum approval_answer unasked;
        bool can_ask;
        struct list open; /* question::link */
};

static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"decision\":{\"type\":\"string\",\"title\":\"Decision\","
        "\"description\":\"once: only now; session: also when exactly this is asked for again; deny: no\","
        "\"enum\":[\"" ONCE "\",\"" FOR_SESSION "\",\"" DENY
        "\"],\"enumNames\":[\"Yes, once\",\"Yes, for this session\",\"No\"]}},\"required\":[\"decision\"]}";

static void ask(void *arg, const struct approval_question *question)
{
        struct questions *q = arg;
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX), text = BUF_INIT(MCP_MESSAGE_MAX / 8);
        struct jsonw w;
        if (!q->can_ask || question_text_write(&text, question) < 0) {
                (void)approvals_answer(q->approvals, question->id, q->can_ask ? APPROVAL_NO : q->unasked);
                return;
        }
        struct question *one = mem_new(struct question);
        one->request = ++q->outbox->last_id;
        one->id = question->id;
        one->route = calls_route(q->calls, question->action->call_id);
        list_append(&q->open, &one->link);
        reply_request_begin(&w, &out, one->request, "elicitation/create");
        jsonw_object(&w);
        jsonw_member_string(&w, "message", slice_trim(buf_slice(&text)));
        jsonw_key(&w, "requestedSchema");
        jsonw_raw(&w, slice_from_str(schema));
        jsonw_object_end(&w);
        reply_end(&w);
        outbox_send(q->outbox, one->route, &out);
}

static void question_free(struct question *one)
{
        list_remove(&one->link);
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

static enum approval_answer read_answer(struct arena *a, const struct rpc_message *m)
{
        const struct json_doc *d = &m->doc;
        const struct json *action = json_get(d, m->result, S("action")),
                          *decision = json_get(d, json_get(d, m->result, S("content")), S("decision"));
        if (m->kind != RPC_RESPONSE || !action || action->type != JSON_STRING || !decision ||
            decision->type != JSON_STRING || !slice_eq(json_string(a, d, action), S("accept")))
                return APPROVAL_NO;
        struct slice word = json_string(a, d, decision);
        return slice_eq(word, S(ONCE))          ? APPROVAL_ONCE
               : slice_eq(word, S(FOR_SESSION)) ? APPROVAL_FOR_SESSION
                                                : APPROVAL_NO;
}

bool questions_take(struct questions *q, struct arena *a, const struct rpc_message *m)
{
        struct question *one;
        if (m->id.is_string)
                return false;
        list_each (one, &q->open, link) {
                if (m->id.number != (int64_t)one->request)
                        continue;
                uint64_t id = one->id;
                question_free(one);
                (void)approvals_answer(q->approvals, id, read_answer(a, m));
                return true;
        }
        return false;
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
        return (struct approvals_asker){ .ask = ask, .withdraw = withdraw, .arg = q };
}

void questions_use(struct questions *q, struct approvals *approvals, const struct calls *calls)
{
        q->approvals = approvals;
        q->calls = calls;
}

struct questions *questions_new(struct outbox *outbox, enum approval_answer unasked)
{
        struct questions *q = mem_new(struct questions);
        q->outbox = outbox;
        q->unasked = unasked;
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

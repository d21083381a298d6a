/* network_questions: the requests of a server: which hosts processes may reach. Other requests are refused.
 *
 * A question belongs to a process and to a target: host, port and protocol. Its request belongs to a connection: when that is lost, the
 * question stays, and takes the request with which the server asks again. What nobody answers in time is withdrawn; the server has then
 * denied it by itself.
 */
#include "client/client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

#define METHOD_SHOWN_BYTES 200
#define REASON_MAX 1024
#define HOST_MAX 1024
#define NOBODY "nobody can be asked"
#define TEXT_MAX ((size_t)16 * 1024) /* an answer */

struct network_question {
        struct list link; /* farhand::network_questions */
        struct farhand_process *process;
        uint64_t id;           /* ours */
        struct rpc_id request; /* the server's */
        bool has_request;      /* the connection with this request is there */
        uint64_t end_ms;       /* 0: it has no end of its own */
        char *protocol, *host;
        uint16_t port;
        char *answer; /* the result, when it was given while there was no connection */
};

/* ---- answers ---- */

/* Sends an answer, unless so much waits to be sent that the server has to do without: it denies by itself then. */
static void send_text(struct farhand *f, const struct buf *text)
{
        if (f->transport.state == TRANSPORT_OPEN &&
            text->n + transport_queued(&f->transport) <= TRANSPORT_OUT_MAX / 2)
                transport_send(&f->transport, buf_slice(text));
}

static void refuse(struct farhand *f, const struct rpc_id *id, int code, const char *text)
{
        _buf_ struct buf out = BUF_INIT(TEXT_MAX);
        struct err err = ERR_INIT;
        (void)err_set(&err, code, -EINVAL, "%s", text);
        if (rpc_error_write(&out, id, &err, NULL) == 0)
                send_text(f, &out);
}

static void send_result(struct farhand *f, const struct rpc_id *id, const char *result)
{
        _buf_ struct buf out = BUF_INIT(TEXT_MAX);
        struct jsonw w;
        rpc_result_begin(&w, &out, id);
        jsonw_raw(&w, slice_from_str(result));
        if (rpc_result_end(&w) == 0)
                send_text(f, &out);
}

/* Returns the result as JSON, to be freed. */
static char *result_text(const struct farhand *f, const struct farhand_network_answer *answer)
{
        static const char *const words[] = {
                [FARHAND_REMEMBER_PROCESS] = "process", [FARHAND_REMEMBER_SESSION] = "session"
        };
        bool is_allow = answer->action == FARHAND_NETWORK_ALLOW;
        _buf_ struct buf out = BUF_INIT(TEXT_MAX);
        struct jsonw w;
        jsonw_begin(&w, &out);
        jsonw_object(&w);
        jsonw_key(&w, "decision");
        jsonw_object(&w);
        jsonw_member_str(&w, "type", is_allow ? "allow" : "deny");
        if (!is_allow)
                jsonw_member_str(&w, "reason", answer->reason ? answer->reason : "");
        jsonw_object_end(&w);
        if (answer->remember != FARHAND_REMEMBER_NOTHING && farhand_has_capability(f, "egressV1")) {
                jsonw_member_str(&w, "remember", words[answer->remember]);
                if (answer->ttl_ms > 0)
                        jsonw_member_u64(&w, "ttlMs", answer->ttl_ms);
        }
        jsonw_object_end(&w);
        must(jsonw_end(&w) == 0); /* a reason has at most REASON_MAX bytes */
        return mem_strdup(out.p);
}

static void question_free(struct network_question *q)
{
        q->process->client->network_question_count--;
        list_remove(&q->link);
        rpc_id_release(&q->request);
        free(q->protocol);
        free(q->host);
        free(q->answer);
        free(q);
}

static void deny_unasked(struct farhand *f, const struct rpc_id *id)
{
        const struct farhand_network_answer no = { .action = FARHAND_NETWORK_DENY, .reason = NOBODY };
        _free_ char *text = result_text(f, &no);
        send_result(f, id, text);
}

static bool is_reason(const char *text)
{
        for (const char *p = text; *p; p++)
                if ((unsigned char)*p < ' ' || *p == 0x7f)
                        return false;
        return strlen(text) <= REASON_MAX;
}

static struct network_question *find(const struct farhand_process *p, uint64_t id)
{
        struct network_question *q;
        list_each (q, &p->client->network_questions, link)
                if (q->id == id && q->process == p && !q->answer)
                        return q;
        return NULL;
}

int farhand_process_answer_network(struct farhand_process *p, uint64_t question_id,
                                   const struct farhand_network_answer *given,
                                   struct farhand_error *ret_error)
{
        struct farhand_network_answer answer = { 0 };
        memcpy(&answer, given, MIN(given->size, sizeof(answer)));
        struct network_question *q = find(p, question_id);
        if (given->size < offsetof(struct farhand_network_answer, ttl_ms) ||
            (unsigned)answer.action > FARHAND_NETWORK_DENY ||
            (unsigned)answer.remember > FARHAND_REMEMBER_SESSION)
                return error_set(ret_error, -EINVAL, "an answer allows or denies");
        if (answer.reason && !is_reason(answer.reason))
                return error_set(ret_error, -EINVAL,
                                 "a reason has at most %d bytes and no control characters", REASON_MAX);
        if (!q)
                return error_set(ret_error, -ESRCH, "the question has ended");
        char *text = result_text(p->client, &answer);
        if (!q->has_request) { /* it is sent when the server asks again */
                q->answer = text;
                return 0;
        }
        send_result(p->client, &q->request, text);
        free(text);
        question_free(q);
        return 0;
}

/* ---- questions ---- */

static void tell(const struct network_question *q, enum farhand_network_action action)
{
        struct farhand_process *p = q->process;
        const struct farhand_network_question question = {
                .action = action, .id = q->id, .protocol = q->protocol, .host = q->host, .port = q->port
        };
        if (p->events.on_network)
                p->events.on_network(p, p->arg, &question);
}

static struct farhand_process *find_process(struct farhand *f, struct slice id)
{
        struct farhand_process *p;
        list_each (p, &f->processes, link)
                if (p->state != PROCESS_OVER && p->events.on_network && slice_eq(slice_from_str(p->id), id))
                        return p;
        return NULL;
}

/* Returns the question that waits for the server to ask it again. */
static struct network_question *find_orphan(const struct farhand_process *p, const char *protocol,
                                            const char *host, uint64_t port)
{
        struct network_question *q;
        list_each (q, &p->client->network_questions, link)
                if (q->process == p && !q->has_request && q->port == port && strcmp(q->host, host) == 0 &&
                    strcmp(q->protocol, protocol) == 0)
                        return q;
        return NULL;
}

static uint64_t end_ms(const struct farhand_process *p)
{
        return p->network_timeout_ms > 0 ? clock_mono_ms() + p->network_timeout_ms : 0;
}

static void ask_again(struct network_question *q, const struct rpc_id *id)
{
        rpc_id_release(&q->request);
        q->request = rpc_id_dup(id);
        q->has_request = true;
        q->end_ms = end_ms(q->process);
        if (!q->answer)
                return;
        send_result(q->process->client, &q->request, q->answer);
        question_free(q);
}

static void ask(struct farhand_process *p, const struct rpc_id *id, const char *protocol, const char *host,
                uint16_t port)
{
        struct farhand *f = p->client;
        struct network_question *q = mem_new(struct network_question);
        *q = (struct network_question){ .process = p,
                                        .id = ++f->next_network_question,
                                        .request = rpc_id_dup(id),
                                        .has_request = true,
                                        .end_ms = end_ms(p),
                                        .protocol = mem_strdup(protocol),
                                        .host = mem_strdup(host),
                                        .port = port };
        list_append(&f->network_questions, &q->link);
        f->network_question_count++;
        tell(q, FARHAND_NETWORK_ASK); /* the program may answer at once, which frees the question */
}

static void on_policy_request(struct farhand *f, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct json *request = json_get(&m->doc, m->params, S("request"));
        const char *protocol = member_text(&a, &m->doc, request, S("protocol")),
                   *host = member_text(&a, &m->doc, request, S("host"));
        uint64_t port = 0;
        if (!protocol || !host || strlen(host) > HOST_MAX || strlen(protocol) > HOST_MAX ||
            !member_u64(&m->doc, request, S("port"), &port) || port > UINT16_MAX) {
                refuse(f, &m->id, RPC_INVALID_PARAMS, "a question needs a protocol, a host and a port");
                return;
        }
        struct farhand_process *p = find_process(f, member_string(&a, &m->doc, m->params, S("processId")));
        struct network_question *again = p ? find_orphan(p, protocol, host, port) : NULL;
        if (again)
                ask_again(again, &m->id);
        else if (!p || f->network_question_count >= NETWORK_QUESTIONS_MAX)
                deny_unasked(f, &m->id);
        else
                ask(p, &m->id, protocol, host, (uint16_t)port);
}

void client_on_request(struct farhand *f, const struct rpc_message *m)
{
        if (slice_eq(m->method, S("network/policyRequest"))) {
                on_policy_request(f, m);
                return;
        }
        char text[METHOD_SHOWN_BYTES + 64];
        (void)snprintf(text, sizeof(text), "unknown method `%.*s`",
                       (int)MIN(m->method.n, (size_t)METHOD_SHOWN_BYTES), m->method.p);
        refuse(f, &m->id, RPC_METHOD_NOT_FOUND, text);
}

/* ---- ends ---- */

void client_network_questions_on_lost(struct farhand *f)
{
        struct network_question *q;
        list_each (q, &f->network_questions, link)
                q->has_request = false;
}

/* Returns a question whose time is over. */
static struct network_question *find_late(const struct farhand *f, uint64_t now_ms)
{
        struct network_question *q;
        list_each (q, &f->network_questions, link)
                if (q->end_ms > 0 && now_ms >= q->end_ms)
                        return q;
        return NULL;
}

void client_network_questions_on_time(struct farhand *f, uint64_t now_ms)
{
        struct network_question *q;
        while ((q = find_late(f, now_ms))) {
                /* The callback may free the process, and with it its questions: so this one is taken out before. */
                struct network_question was = *q;
                bool is_told = !q->answer;
                q->protocol = q->host = NULL;
                question_free(q);
                if (is_told)
                        tell(&was, FARHAND_NETWORK_WITHDRAWN);
                free(was.protocol);
                free(was.host);
        }
}

uint64_t client_network_questions_due_ms(const struct farhand *f)
{
        struct network_question *q;
        uint64_t due = UINT64_MAX;
        list_each (q, &f->network_questions, link)
                if (q->end_ms > 0)
                        due = MIN(due, q->end_ms);
        return due;
}

void client_network_questions_drop(struct farhand_process *p)
{
        struct network_question *q;
        list_each (q, &p->client->network_questions, link) {
                if (q->process != p)
                        continue;
                if (q->has_request)
                        deny_unasked(p->client, &q->request);
                question_free(q);
        }
}

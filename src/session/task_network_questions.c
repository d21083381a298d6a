/* task_network_questions: what the client of a command is asked about its connections: network/policyRequest.
 *
 * One question is open for each host, port and protocol: other connections that want the same wait for its answer. A question belongs to
 * the process, not to a connection of the client: a client that resumes the session is asked again. When nobody has answered in time, or
 * what came is no answer, the connection is denied.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/inquiry.h"
#include "core/server.h"
#include "netrule/reason.h"
#include "session/task_network_internal.h"

/* A connection that waits. */
struct waiting {
        struct list link; /* network_question::waiting */
        uint32_t number;  /* of farhand-egress */
};

struct network_question {
        struct list link; /* task_network::questions */
        struct task_network *network;
        struct list waiting; /* waiting::link */
        uint8_t protocol;
        uint16_t port;
        char *host;
        size_t host_n;
        struct inquiry inquiry; /* open while a client is asked */
        struct timer *timer;
};

/* What a client has answered. */
struct decision {
        uint8_t action; /* enum net_action */
        struct slice reason;
        enum { REMEMBER_NOT, REMEMBER_PROCESS, REMEMBER_SESSION } remember;
        uint64_t ttl_ms; /* 0: for ever */
};

static const struct decision not_allowed = { .action = NET_DENY, .reason = { "not_allowed", 11 } };

static struct task_network *network_of(struct gate_network *gate)
{
        return container_of(gate, struct task_network, gate);
}

static struct network_question_target target_of(const struct network_question *q)
{
        return (struct network_question_target){ .protocol = q->protocol,
                                                 .port = q->port,
                                                 .host = slice_from(q->host, q->host_n) };
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void waiting_free(struct task_network *n, struct waiting *w)
{
        list_remove(&w->link);
        n->waiting--;
        free(w);
}

static void question_free(struct network_question *q)
{
        struct waiting *w;
        while ((w = list_first(&q->waiting, struct waiting, link)))
                waiting_free(q->network, w);
        list_remove(&q->link);
        q->network->question_count--;
        inquiry_cancel(&q->inquiry);
        timer_free(q->timer);
        free(q->host);
        free(q);
}

static void answer(struct task_network *n, uint32_t number, const struct decision *d)
{
        gate_answer(&n->gate,
                    &(struct egressmsg_answer){
                            .question = number,
                            .action = d->action,
                            .remember = d->remember == REMEMBER_NOT ? EGRESSMSG_ONCE : EGRESSMSG_FOR_NETWORK,
                            .ttl_ms = (uint32_t)MIN(d->ttl_ms, (uint64_t)UINT32_MAX),
                            .reason = d->reason });
}

static void decide(struct network_question *q, const struct decision *d)
{
        struct waiting *w;
        struct session *session = q->network->task->session;
        const struct network_question_target target = target_of(q);
        if (d->remember == REMEMBER_SESSION)
                network_memory_put(&session->network_memory, &target,
                                   &(struct network_answer){
                                           .is_allowed = d->action == NET_ALLOW,
                                           .reason = d->reason,
                                           .until_ms = d->ttl_ms ? clock_mono_ms() + d->ttl_ms : 0 });
        list_each (w, &q->waiting, link)
                answer(q->network, w->number, d);
        question_free(q);
}

/* Reads the members `remember` and `ttlMs`, which only this server knows. Returns false when they are no good. */
static bool read_memory(struct arena *a, const struct json_doc *doc, const struct json *object,
                        struct decision *ret)
{
        const struct json *v = json_get(doc, object, S("remember")), *ttl = json_get(doc, object, S("ttlMs"));
        if (v && v->type != JSON_NULL) {
                struct slice word = v->type == JSON_STRING ? json_string(a, doc, v) : (struct slice){ 0 };
                ret->remember = slice_eq(word, S("process"))   ? REMEMBER_PROCESS
                                : slice_eq(word, S("session")) ? REMEMBER_SESSION
                                                               : REMEMBER_NOT;
                if (ret->remember == REMEMBER_NOT)
                        return false;
        }
        if (ttl && ttl->type != JSON_NULL &&
            (json_u64(doc, ttl, &ret->ttl_ms) < 0 || ret->ttl_ms == 0 || ret->ttl_ms > UINT32_MAX))
                return false;
        return ret->remember != REMEMBER_NOT || ret->ttl_ms == 0;
}

/* Reads what a client has answered. Returns false when it is no answer. */
static bool read_decision(struct arena *a, const struct rpc_message *m, struct decision *ret)
{
        const struct json_doc *doc = &m->doc;
        const struct json *object = m->kind == RPC_RESPONSE && m->result->type == JSON_OBJECT
                                            ? json_get(doc, m->result, S("decision"))
                                            : NULL;
        if (!object || object->type != JSON_OBJECT)
                return false;
        const struct json *type = json_get(doc, object, S("type")),
                          *reason = json_get(doc, object, S("reason"));
        enum net_action action;
        if (!type || type->type != JSON_STRING || !net_action_find(json_string(a, doc, type), &action))
                return false;
        *ret = (struct decision){ .action = (uint8_t)action };
        if (action != NET_ALLOW) {
                if (!reason || reason->type != JSON_STRING)
                        return false;
                ret->reason = json_string(a, doc, reason);
                if (!net_reason_is_valid(ret->reason))
                        return false;
                if (ret->reason.n == 0)
                        ret->reason = S("policy_denied");
        }
        return read_memory(a, doc, m->result, ret);
}

static void on_answered(struct inquiry *i, const struct rpc_message *m)
{
        struct network_question *q = container_of(i, struct network_question, inquiry);
        _arena_ struct arena a = ARENA_INIT;
        struct decision d;
        decide(q, read_decision(&a, m, &d) ? &d : &not_allowed);
}

/* The client has gone. The next one is asked again, if it comes in time. */
static void on_lost(UNUSED struct inquiry *i)
{
}

static void on_late(void *arg)
{
        decide(arg, &not_allowed);
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

/* Asks the client. Does nothing when there is none, or when it was asked, or does not read: a command that asks and hangs up would
 * fill the memory with questions. */
static void ask(struct network_question *q)
{
        struct client *c = network_reader(q->network);
        struct jsonw w;
        if (!c || q->inquiry.client == c)
                return;
        inquiry_cancel(&q->inquiry);
        if (!inquiry_has_room(c)) {
                decide(q, &not_allowed);
                return;
        }
        struct slice id = task_id(q->network->task), host = slice_from(q->host, q->host_n);
        inquiry_begin(&q->inquiry, c, "network/policyRequest",
                      jsonw_string_max(id) + jsonw_string_max(host) + 128, &w);
        jsonw_member_string(&w, "processId", id);
        jsonw_key(&w, "request");
        jsonw_object(&w);
        jsonw_member_str(&w, "protocol", net_protocol_word((enum net_protocol)q->protocol));
        jsonw_member_string(&w, "host", host);
        jsonw_member_u64(&w, "port", q->port);
        jsonw_object_end(&w);
        inquiry_end(&q->inquiry, &w);
}

static struct network_question *question_find(const struct task_network *n,
                                              const struct network_question_target *t)
{
        struct network_question *q;
        list_each (q, &n->questions, link)
                if (q->protocol == t->protocol && q->port == t->port &&
                    slice_eq(slice_from(q->host, q->host_n), t->host))
                        return q;
        return NULL;
}

static struct network_question *question_new(struct task_network *n, const struct network_question_target *t)
{
        struct network_question *q = mem_new(struct network_question);
        uint64_t ms;
        q->network = n;
        q->protocol = t->protocol;
        q->port = t->port;
        q->host = slice_dup(t->host);
        q->host_n = t->host.n;
        q->inquiry = (struct inquiry){ .answered = on_answered, .lost = on_lost };
        list_init(&q->inquiry.link);
        list_init(&q->waiting);
        list_append(&n->questions, &q->link);
        n->question_count++;
        q->timer = timer_new(&n->task->session->server->loop, on_late, q);
        if (!ckd_add(&ms, n->question_ms, (uint64_t)LIMIT_NET_QUESTION_GRACE_MS))
                timer_start(q->timer, MIN(ms, (uint64_t)INT32_MAX));
        return q;
}

/* Answers from what the client has decided for the whole session. */
static bool answer_from_memory(struct task_network *n, uint32_t number,
                               const struct network_question_target *t)
{
        struct network_answer known;
        if (!network_memory_find(&n->task->session->network_memory, t, &known))
                return false;
        struct decision d = { .action = known.is_allowed ? NET_ALLOW : NET_DENY, .reason = known.reason };
        answer(n, number, &d);
        return true;
}

void network_asked(struct gate_network *gate, const struct egressmsg_ask *m)
{
        struct task_network *n = network_of(gate);
        const struct network_question_target target = { .protocol = m->protocol,
                                                        .port = m->port,
                                                        .host = m->host };
        if (n->question_ms == 0 || n->is_over || n->waiting >= LIMIT_NET_QUESTIONS) {
                answer(n, m->question, &not_allowed);
                return;
        }
        if (answer_from_memory(n, m->question, &target))
                return;
        struct network_question *q = question_find(n, &target);
        bool is_new = !q;
        if (is_new && n->question_count >= LIMIT_NET_TARGETS) {
                answer(n, m->question, &not_allowed);
                return;
        }
        if (is_new)
                q = question_new(n, &target);
        struct waiting *w = mem_new(struct waiting);
        w->number = m->question;
        list_append(&q->waiting, &w->link);
        n->waiting++;
        if (is_new)
                ask(q);
}

/* Takes a connection out that does not wait any more. Returns whether it was among these. */
static bool stop_waiting(struct network_question *q, uint32_t number)
{
        struct waiting *w;
        list_each (w, &q->waiting, link)
                if (w->number == number) {
                        waiting_free(q->network, w);
                        return true;
                }
        return false;
}

void network_withdrawn(struct gate_network *gate, uint32_t number)
{
        struct network_question *q;
        list_each (q, &network_of(gate)->questions, link)
                if (stop_waiting(q, number)) {
                        if (list_is_empty(&q->waiting))
                                question_free(q); /* what the client still answers is ignored */
                        return;
                }
}

void network_questions_drop(struct task_network *n)
{
        struct network_question *q;
        while ((q = list_first(&n->questions, struct network_question, link)))
                question_free(q);
}

void network_questions_ask_again(struct task_network *n)
{
        struct network_question *q;
        /* A message to the client can end its connection, but frees no question other than by its own decision. */
        list_each (q, &n->questions, link)
                ask(q);
}

/* task_questions: the open questions of an intercepted command, and what clients decide about them. */
#include "core/server.h"
#include "proto/intercept.h"
#include "session/task_intercept_internal.h"

#include <errno.h>

void question_forget(struct task *t, struct exec_question *q)
{
        t->session->server->question_bytes -= q->bytes;
        t->intercept->question_count--;
        exec_question_free(q);
        if (t->intercept->question_count == 0)
                task_limits_go_on(t);
}

void question_end(struct task *t, struct exec_question *q, const char *decision, const struct client *by)
{
        struct client *c = intercept_listener(t);
        if (c && c != by)
                exec_question_tell(c, task_id(t), q->number, decision, &q->asked);
        question_forget(t, q);
}

void questions_withdraw(struct task *t)
{
        struct exec_question *q;
        while ((q = list_first(&t->intercept->questions, struct exec_question, link)))
                question_end(t, q, "withdrawn", NULL);
}

const char *questions_refuse(const struct task *t, uint64_t bytes)
{
        if (t->intercept->question_count >= LIMIT_INTERCEPT_QUESTIONS)
                return "too many programs of this process wait for a decision";
        uint64_t used = t->session->server->question_bytes;
        if (used > LIMIT_INTERCEPT_TOTAL_BYTES || bytes > LIMIT_INTERCEPT_TOTAL_BYTES - used)
                return "too many programs of all processes wait for a decision";
        return NULL;
}

void question_add(struct task *t, struct exec_question *q)
{
        struct task_intercept *i = t->intercept;
        i->last_number = q->number;
        t->session->server->question_bytes += q->bytes;
        list_append(&i->questions, &q->link);
        if (i->question_count++ == 0)
                task_limits_hold(t);
}

struct exec_question *question_of_broker(const struct task_intercept *i, uint32_t id)
{
        struct exec_question *q;
        list_each (q, &i->questions, link)
                if (!q->is_first && q->asked.id == id)
                        return q;
        return NULL;
}

/* Returns the first question with a higher number. */
static struct exec_question *question_after(const struct task_intercept *i, uint64_t number)
{
        struct exec_question *q;
        list_each (q, &i->questions, link)
                if (q->number > number)
                        return q;
        return NULL;
}

/* Tells an open question to a client, or denies what the client cannot be told of. */
static void tell_question(struct task *t, struct client *c, struct exec_question *q)
{
        if (exec_question_tell(c, task_id(t), q->number, "ask", &q->asked))
                return;
        bool is_first = q->is_first;
        uint32_t id = q->asked.id;
        question_forget(t, q);
        if (is_first)
                intercept_decide_first(t, INTERCEPT_DENY, S(QUESTION_TOO_LONG));
        else
                intercept_deny(t, id, QUESTION_TOO_LONG);
}

void task_intercept_tell_again(struct task *t)
{
        struct client *c;
        struct exec_question *q;
        /* A message to the client can end the connection, and questions with it: so the list is walked by the numbers of the questions. */
        for (uint64_t told = 0;
             t->intercept && (c = intercept_listener(t)) && (q = question_after(t->intercept, told));) {
                told = q->number;
                tell_question(t, c, q);
        }
}

/* --- decisions ---------------------------------------------------------------------------------------------------- */

static int unknown_question(const struct process_exec_decide *in, struct err *err)
{
        return err_set(err, RPC_INVALID_REQUEST, -ENOENT, "unknown request id %.*s",
                       (int)MIN(in->request_id.n, (size_t)64), in->request_id.p);
}

int task_exec_decide(struct task *t, struct req *req, const struct process_exec_decide *in, struct err *err)
{
        static const enum intercept_action actions[] = { [EXEC_DECIDED_RUN] = INTERCEPT_RUN,
                                                         [EXEC_DECIDED_ESCALATE] = INTERCEPT_ESCALATE,
                                                         [EXEC_DECIDED_DENY] = INTERCEPT_DENY };
        enum intercept_action action = actions[in->decision];
        uint64_t number;
        if (slice_to_u64(in->request_id, UINT64_MAX, &number) < 0 ||
            (in->request_id.n > 0 && in->request_id.p[0] == '0'))
                return unknown_question(in, err);
        struct exec_question *q =
                t->intercept && number > 0 ? question_after(t->intercept, number - 1) : NULL;
        if (!q || q->number != number)
                return unknown_question(in, err);
        bool is_first = q->is_first;
        uint32_t id = q->asked.id;
        question_end(t, q, intercept_action_name(action), req->client);
        req_reply_empty(req->client, req->id);
        if (is_first)
                intercept_decide_first(t, action, in->reason);
        else
                intercept_answer(t, id, action, in->is_remembered, in->reason);
        return 0;
}

/* questions: asks the person behind an MCP client, with elicitation/create, and gives the answers to the approvals.
 *
 * A client that cannot be asked gets no question: what its user has chosen for that case is the answer. What is no clear yes is a no.
 */
#pragma once

#include "approve/approve.h"
#include "mcp/calls.h"
#include "mcp/outbox.h"
#include "mcp/rulebook.h"
#include "wire/rpc.h"

struct questions;

struct questions_options {
        enum approval_answer unasked; /* when the client cannot be asked */
        bool is_brief; /* as the reference asks: to accept a question is a yes, once, whatever else the answer has */
        struct rulebook *
                rulebook; /* takes the rules of the answer "always", and stays the caller's; NULL: there is no such answer */
};

struct questions *questions_new(struct outbox *outbox, const struct questions_options *options);
void questions_free(struct questions *q); /* after the approvals; NULL is fine */
struct approvals_asker questions_asker(struct questions *q);
/* A question goes the way of the call that it is about. */
void questions_use(struct questions *q, struct approvals *approvals, const struct calls *calls);
/* Notes the capabilities that the client has declared, as JSON; NULL: none. */
void questions_meet(struct questions *q, const struct json_doc *d, const struct json *capabilities);
NODISCARD bool questions_can_ask(const struct questions *q);
/* Takes an answer of the client. Returns false when it answers no question. */
bool questions_take(struct questions *q, struct arena *a, const struct rpc_message *m);

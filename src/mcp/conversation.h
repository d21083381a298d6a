/* conversation: what an MCP client says, and what it is answered: the handshake, the list of tools, calls, cancellation, questions, and the
 * workspace, which a client may name as its roots.
 *
 * It knows no transport: messages come by conversation_take, and go out through the outbox. Nothing blocks.
 */
#pragma once

#include "mcp/outbox.h"
#include "mcp/questions.h"
#include "unified/unified.h"

struct conversation;

struct conversation_options {
        const char *const *environments; /* ids, ending with NULL; the first one is the primary one */
        bool asks_for_roots; /* the client may say which workspace environments of this machine have */
        bool is_read_only;   /* commands can change nothing */
        bool never_asks;     /* the policy: calls cannot wish for more permissions */
        bool is_reference; /* behaves as the reference's server of the tool shell, which has that tool alone */
        struct questions_options questions;
        struct outbox outbox;
};

/* Copies the options, but not what they point to. */
struct conversation *conversation_new(const struct conversation_options *options);
void conversation_free(struct conversation *c); /* after the table; NULL is fine */
/* Fills in the callbacks of the table, and who is asked. */
void conversation_prepare(struct conversation *c, struct unified_options *options,
                          struct approvals_asker *asker);
void conversation_use(struct conversation *c, struct unified *table, struct approvals *approvals);

/* Does what a message says, or the messages of a batch. It must have BUF_PADDING readable bytes behind it. What is sent because of it goes
 * the same way (mcp/outbox.h). */
void conversation_take(struct conversation *c, uint64_t route, struct slice text);
/* A message was too long to be read. */
void conversation_refuse_long(struct conversation *c);
/* Nothing more will come: calls that have not begun never do. */
void conversation_end(struct conversation *c);

/* Does what is due at this time, and tells when something will be. */
void conversation_on_turn(struct conversation *c, uint64_t now_ms);
NODISCARD uint64_t conversation_due_ms(const struct conversation *c);

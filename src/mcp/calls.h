/* calls: the calls of tools that are under way for an MCP client: each is answered once, or not at all when it was cancelled.
 *
 * Calls go on side by side in the table. While calls are held they wait here, because the workspace is not known yet. */
#pragma once

#include "mcp/outbox.h"
#include "unified/unified.h"
#include "wire/rpc.h"

struct calls;

/* What a request asks for. Copied. */
struct call_wish {
        struct rpc_id id;
        struct batch *batch;
        enum unified_tool tool;
        struct slice arguments;      /* JSON */
        int64_t session_id;          /* of write_stdin; 0: none */
        struct slice progress_token; /* JSON of a string or a number; empty: nobody wants to know */
        bool has_structured;         /* the client knows structured results */
};

struct calls *calls_new(struct outbox *outbox);
void calls_free(struct calls *c); /* after the table; NULL is fine */
/* Fills in the callbacks of the table. */
void calls_prepare(struct calls *c, struct unified_options *options);
void calls_use(struct calls *c, struct unified *table);

/* Returns whether a call of that id is under way. */
NODISCARD bool calls_know(const struct calls *c, const struct rpc_id *id);
/* Begins a call, or answers at once why not. */
void calls_begin(struct calls *c, const struct call_wish *wish);
/* Ends a call with the process that it has started. There is no answer. An unknown id is fine: the call may have just ended. */
void calls_cancel(struct calls *c, const struct rpc_id *id);
void calls_hold(struct calls *c, bool is_held);
/* Forgets the calls that are held: nobody waits for them any more. */
void calls_forget_held(struct calls *c);

/* Returns the route of the call that events and questions name so; 0: it has ended. */
NODISCARD uint64_t calls_route(const struct calls *c, const char *call_id);

/* Tells the progress that is due, and when the next is. */
void calls_on_turn(struct calls *c, uint64_t now_ms);
NODISCARD uint64_t calls_due_ms(const struct calls *c);

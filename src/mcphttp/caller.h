/* caller: one HTTP connection of an MCP client.
 *
 * A caller reads one request at a time, under deadlines and limits, and answers it: at once, or when the session has said what to answer,
 * as JSON or as a stream of events. What the client sends meanwhile waits. The token is checked before a body is read.
 */
#pragma once

#include "base/list.h"
#include "conn/auth.h"
#include "conn/refusals.h"
#include "mcphttp/request.h"
#include "mcphttp/sessions.h"

/* What all connections share. */
struct callers {
        struct loop *loop;
        struct mcp_sessions *sessions;
        struct request_rules rules;
        const struct auth *auth;
        /* Returns whether streams of that version of the protocol begin with an empty event. */
        bool (*has_greeting)(struct slice version);
        /* caller::link. The connections without a request are in the order in which they have been so. */
        struct list all;
        size_t count;        /* length of `all` */
        uint64_t body_bytes; /* of all bodies that are on their way */
        struct refusals refusals;
};

void callers_init(struct callers *all, struct loop *loop, struct mcp_sessions *sessions);
/* Drops all connections. They are freed when the loop runs what is deferred. */
void callers_drop(struct callers *all);
void callers_release(struct callers *all);

/* Serves a socket, which is non-blocking, and takes it over. `peer` is an address for logs. */
void caller_new(struct callers *all, int fd, const char *peer);
/* Drops the connection that has been without a request for the longest time. Returns false when none has been for long. */
bool callers_make_room(struct callers *all);

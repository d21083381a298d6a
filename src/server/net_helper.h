/* net_helper: the server's side of farhand-net, the program that makes HTTP requests (wire/netmsg.h).
 *
 * The first call starts the helper process, and so does the first call after the helper has died. A call is registered from
 * net_call_start until its `end` event or net_call_cancel; after that no event of the call comes.
 *
 * The messages of the helper are checked. A helper that breaks the rules (more data than credit, data before a head, a
 * malformed message) is killed, and its calls fail. While it has calls the helper is pinged, and it is killed when it does not
 * answer. The server enforces the time limits of calls when the helper does not.
 */
#pragma once

#include "base/err.h"
#include "core/server.h"
#include "wire/netmsg.h"

struct net_call;
struct net_helper;

struct net_call_events {
        /* Slices are valid until the callback returns. A callback may cancel or free its own call, and must not start another. */
        void (*head)(struct net_call *call, const struct netmsg_head *head);
        void (*data)(struct net_call *call, struct slice bytes);
        /* The call has ended, and is no longer registered. */
        void (*end)(struct net_call *call, const struct netmsg_end *end);
};

/* One HTTP request. Embedded in a struct of the caller. */
struct net_call {
        struct net_helper *helper; /* NULL while the call is not registered */
        const struct net_call_events *events;
        uint32_t id;
        uint64_t credit; /* bytes that the helper may still send */
        bool has_head;
        struct timer *timer; /* time limit of the call; NULL: there is none */
        struct slice body;   /* the part of the body that is not queued yet */
        struct arena kept;   /* holds the memory of `body` */
        struct list body_link;
};

/* Starts a call. Sets credit and body_bytes of `m`. Copies the body; or, when `kept` is not NULL and the body is large, takes the
 * arena `kept`, which holds the body, and sends the body in pieces. Errors: -32603 when the helper cannot be started
 * (net_program.h), -32021 when there are too many calls. */
NODISCARD int net_call_start(struct server *s, struct net_call *call, const struct net_call_events *events,
                             struct netmsg_request *m, struct slice body, struct arena *kept,
                             struct err *err);

/* Cancels a call. Does nothing when the call is not registered. */
void net_call_cancel(struct net_call *call);
/* Lets the helper send `bytes` more, because as many were consumed. */
void net_call_credit(struct net_call *call, size_t bytes);

/* Reserves memory for bodies. Returns false when all calls together would hold more than LIMIT_HTTP_BODIES_BYTES. */
NODISCARD bool net_reserve(struct server *s, uint64_t bytes);
void net_unreserve(struct server *s, uint64_t bytes);

/* Ends the helper. No call may be left. NULL is fine; returns NULL. */
struct net_helper *net_helper_free(struct net_helper *h);

/* net_helper: the server's end of farhand-net, which makes HTTP requests (wire/netmsg.h).
 *
 * Started by the first call, and by the next one after it died. A call is registered from net_call_start until its `end`
 * event or net_call_cancel, whichever is first; after either nothing of it is ever reported. What the helper says is
 * checked: one that breaks the rules (more data than credit, data before a head, nonsense) is killed, and its calls end
 * as those of one that died. So is one that hangs: while it has calls it is asked for a sign of life from time to time.
 * Time limits hold without it: a call that it does not end in time is ended here.
 */
#pragma once

#include "base/err.h"
#include "server/server.h"
#include "wire/netmsg.h"

struct net_call;
struct net_helper;

struct net_call_events {
        /* Slices live until the handler returns. Handlers may cancel or free their own call, and start no other. */
        void (*head)(struct net_call *call, const struct netmsg_head *head);
        void (*data)(struct net_call *call, struct slice bytes);
        void (*end)(struct net_call *call, const struct netmsg_end *end); /* is no longer registered */
};

/* Embedded in what its owner knows of it. */
struct net_call {
        struct net_helper *helper; /* NULL while it is not registered */
        const struct net_call_events *events;
        uint32_t id;
        uint64_t credit; /* bytes that may still come */
        bool has_head;
        struct timer *timer; /* of its time limit; NULL: none */
};

/* `m` without credit and body_bytes: they are set here. The body is copied. -32603 `http helper not installed`, or why it
 * cannot be started; -32021 when too many calls run. */
NODISCARD int net_call_start(struct server *s, struct net_call *call, const struct net_call_events *events,
                             struct netmsg_request *m, struct slice body, struct err *err);
/* The program: in libexec, or beside this one. -ENOENT. `ret`: PATH_MAX. */
NODISCARD int net_helper_find(char *ret);

/* One that is not registered is left alone. */
void net_call_cancel(struct net_call *call);
/* `bytes` of the data were taken on: as many more may come. */
void net_call_credit(struct net_call *call, size_t bytes);

/* Room for bodies: LIMIT_HTTP_BODIES_BYTES in all. */
NODISCARD bool net_reserve(struct server *s, uint64_t bytes);
void net_unreserve(struct server *s, uint64_t bytes);

struct net_helper *net_helper_free(
        struct net_helper *h); /* NULL is fine; returns NULL. No call may be left. */

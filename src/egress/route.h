/* route: the way of one request to its target: judged, asked about if need be, resolved, checked, connected.
 *
 * The owner hears once what became of it. It belongs to whoever serves the client, who releases it in the end; only then the server hears
 * that the connection has ended.
 */
#pragma once

#include "egress/dial.h"
#include "egress/network.h"
#include "egress/questions.h"
#include "egress/resolver.h"
#include "egress/upstream.h"

enum route_result {
        ROUTE_REACHED, /* `fd` is connected, and the owner's */
        ROUTE_REFUSED, /* `action`, `reason`, `source` say why */
        ROUTE_FAILED,  /* it was allowed, and cannot be reached: `why` */
};

struct route {
        struct network *network; /* NULL: the route is not in use */
        struct net_target target;
        char *host, *method; /* what `target` points at */
        char client[64];     /* "127.0.0.1:41288" */

        enum net_action action;
        enum net_source source;
        struct slice reason; /* a literal, or reason_text */
        char *reason_text;
        bool is_override; /* the client has allowed it */
        struct net_verdict verdict;

        struct waiter waiter;
        struct lookup *lookup;
        struct dial *dial;
        int fd;
        int why;
        bool is_upstream; /* `fd` leads to the upstream proxy, which has to be told the target; `peer` stays empty */
        /* A connection that the owner still has from an earlier request to this host and port, by its peer; ss_family 0: none. When it may be used
         * `fd` stays -1 and is_reused becomes true. */
        struct sockaddr_storage peer;
        bool is_reused;
        bool is_reported;

        uint64_t bytes_up, bytes_down; /* the owner counts */
        uint64_t started_ms, time_ms;
        void (*done)(struct route *r, enum route_result result);
};

/* Begins. r->client, r->done and r->peer are set; the rest is zero. `target` is copied; its host is normalized. `done` may be called before this
 * returns. */
void route_start(struct route *r, struct network *n, const struct net_target *target);
/* After ROUTE_REACHED by a connection that the owner had, which turned out to be of no use: makes a new one. It is the same request, and not
 * reported again. */
void route_redial(struct route *r);
/* Gives up or ends. Not in use is fine. */
void route_release(struct route *r);

/* The network has a new policy. Returns whether the route may go on; its old verdict must not be used any more. */
NODISCARD bool route_rejudge(struct route *r);
/* Is it waiting for an answer or an address? */
static inline bool route_is_waiting(const struct route *r)
{
        return r->waiter.question || r->lookup || r->dial;
}

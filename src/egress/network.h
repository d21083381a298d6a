/* network: one managed command as farhand-egress knows it: its policy, its connections, and what the server hears of them. */
#pragma once

#include "base/arena.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "egress/link.h"
#include "loop/loop.h"
#include "netrule/netrule.h"

#include <sys/socket.h>

struct resolver;
struct networks;

/* What all networks share. */
struct egress {
        struct loop loop;
        struct link link;
        struct resolver *resolver;
        struct networks *networks;
        bool is_full;          /* the kernel has no descriptor or memory for another connection */
        struct timer *recover; /* then: tries again */
};

/* A decision, as the server hears of it. Slices are borrowed. */
struct decision {
        enum net_action action;
        enum net_source source;
        bool is_guard, is_override;
        const struct net_target *target;
        struct slice reason, client;
};

struct ending {
        enum net_action action;
        const struct net_target *target;
        struct slice address, rule, reason;
        uint64_t bytes_up, bytes_down, time_ms;
        uint32_t took_ms;
};

/* Something of a network that ends with it. */
struct member {
        struct list link; /* network::members */
        void (*cut)(struct member *m);
        /* The policy has changed: is what it does still allowed? */
        bool (*may_go_on)(struct member *m);
        void (*resume)(struct member *m); /* the server reads again */
};

struct decided_sum;

struct network {
        struct egress *egress;
        uint32_t id;
        struct list link; /* networks::all */
        struct deferred end;
        struct arena arena; /* of the policy */
        struct net_policy policy;
        struct list members; /* member::link: connections */
        size_t member_count;
        void (*on_room)(struct network *n); /* a connection has ended */
        struct looker *looker;

        struct map questions;   /* struct question by its key */
        struct list remembered; /* struct remembered::link, the oldest first */
        size_t remembered_count;
        uint32_t last_question;

        struct timer *second; /* runs while decisions are counted */
        unsigned decided;     /* in this second, sent alone */
        struct decided_sum *sums;
        size_t sum_count;
};

void network_init(struct network *n, struct egress *e, uint32_t id);
void network_release(struct network *n); /* the members must have ended, and questions_release was called */

void network_add(struct network *n, struct member *m);
void network_remove(struct network *n, struct member *m); /* twice is fine */
void network_resume(struct network *n);
static inline bool network_is_full(const struct network *n)
{
        return n->member_count >= LIMIT_EGRESS_CONNECTIONS;
}

void network_decided(struct network *n, const struct decision *d);
void network_ended(struct network *n, const struct ending *e);

/* gate: the server's end of farhand-egress, the program through which commands with a managed network reach the world.
 *
 *     command ── listening socket ── farhand-egress ── the world
 *                       │                  │
 *                       └───── server ─────┘   messages of wire/egressmsg.h
 *
 * A network is what one command has: a policy and the sockets at which its connections come in. The gate keeps both while the network
 * is open, and hands them to farhand-egress, which is started with the first network. When farhand-egress dies, hangs or breaks the
 * rules of the messages it is killed and started again, with growing pauses, and gets every open network anew. Meanwhile nothing is let
 * through: connections wait in the backlog of the sockets.
 *
 * The messages of farhand-egress are those of an enemy: they are checked, what they can make the server keep is bounded, and one turn of
 * the loop reads a bounded number of them.
 */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "wire/egressmsg.h"

#include <sys/types.h>

struct gate_network;
struct server;

/* A callback may close any network, its own too. Slices are valid until it returns. */
struct gate_events {
        /* A connection waits for gate_answer. No question with this number is open in this network. */
        void (*asked)(struct gate_network *n, const struct egressmsg_ask *ask);
        /* Nobody waits for the answer any more. The number may be unknown: the answer was on its way. */
        void (*withdrawn)(struct gate_network *n, uint32_t question);
        void (*decided)(struct gate_network *n, const struct egressmsg_decided *m);
        void (*ended)(struct gate_network *n, const struct egressmsg_ended *m);
        /* farhand-egress was lost: with it the connections of the network, and all its questions. */
        void (*lost)(struct gate_network *n);
};

/* A socket that the command connects to. */
struct gate_inlet {
        enum egressmsg_kind kind;
        uint16_t port; /* with EGRESSMSG_PORT_LISTENER: which one */
        int socket;
};

/* Embedded in a struct of the owner; gate_network_init makes it a closed one. */
struct gate_network {
        struct server *server;
        const struct gate_events *events;
        uint32_t id; /* 0: the network is not open */
        int policy;  /* a file in memory with the policy */
        struct gate_inlet *inlets;
        size_t inlet_count;
        bool is_ending;   /* gate_end was called: what is still told about its connections is on its way */
        struct list link; /* gate::networks, or gate::ending */
};

void gate_network_init(struct gate_network *n);

/* Returns whether networks can be opened on this machine, as far as is known without trying. Otherwise fills err: -32602, and why. */
NODISCARD bool gate_is_there(const struct server *s, struct err *err);

/* Returns whether the network of a sandbox can be a managed one alone, as far as is known: until the back ends are tested they count as good. */
NODISCARD bool gate_can_enforce(const struct server *s);

/* Prepares a network: copies the policy (net_policy_write), and starts farhand-egress when it does not run. Returns 0, or -errno with err:
 * -32603. gate_close is to be called in the end. */
NODISCARD int gate_begin(struct server *s, struct gate_network *n, const struct gate_events *events,
                         struct slice policy, struct err *err);
/* Opens a prepared network. Takes the sockets; copies the list. */
void gate_open(struct gate_network *n, const struct gate_inlet *inlets, size_t inlet_count);
/* Ends the network: its connections are cut, and nothing is asked any more. What was decided and what has ended may still be told. Does
 * nothing when it is not open. */
void gate_end(struct gate_network *n);
/* Ends the network, if it is open, and forgets it: no event of it comes any more. */
void gate_close(struct gate_network *n);
void gate_answer(struct gate_network *n, const struct egressmsg_answer *answer);

/* Reads now what farhand-egress has sent, a bounded number of messages, so that it comes before what the caller tells next. */
void gate_catch_up(struct server *s);

struct gate *gate_free(struct gate *g); /* no network may be open; NULL is fine; returns NULL */

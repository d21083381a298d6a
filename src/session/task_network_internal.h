/* task_network_internal: the state of a command with a managed network, for the files that share it: task_network.c (its life),
 * task_network_environment.c (its variables), task_network_questions.c (what its client is asked) and task_network_told.c (what its
 * client is told). */
#pragma once

#include "gate/gate.h"
#include "keeper/inlets.h"
#include "session/task_internal.h"

#define NETWORK_HTTP_PORT 3128
#define NETWORK_SOCKS_PORT 1080
#define NETWORK_ID_BYTES 200 /* of an executionId, in the log */

/* A decision that the client has not been told yet. */
struct network_decision {
        struct list link; /* task_network::decisions */
        uint64_t count, time_ms;
        uint8_t action, source, protocol;
        bool is_guard, is_override, has_method;
        uint16_t port;
        char *reason, *host, *method, *client;
};

struct task_network {
        struct task *task;
        struct gate_network gate;
        bool is_enforced; /* the sandbox has no other network */
        bool has_socks, allows_local;
        bool is_over; /* the command has closed: its client is asked nothing more */
        char *policy; /* as net_policy_write gives it */
        size_t policy_bytes;
        char *execution_id; /* for the log */
        uint64_t question_ms;

        struct inlets wanted;     /* what the keeper makes; none when the network is advisory */
        int socket;               /* where the keeper sends the sockets; -1: none */
        int keeper_socket;        /* the keeper's end, until the command is on its way; -1: none */
        struct gate_inlet own[2]; /* the sockets of an advisory network, until it is open */
        size_t own_count;
        uint16_t http_port, socks_port;

        struct list questions; /* network_question::link */
        size_t question_count;
        size_t waiting;        /* connections that wait for an answer */
        struct list decisions; /* network_decision::link, oldest first */
        size_t decision_count;
        uint64_t omitted;         /* decisions that there was no room to keep */
        uint64_t allowed, denied; /* decisions so far */
};

/* Returns the client that is told of the task, or NULL. */
struct client *network_client(const struct task_network *n);
/* Returns it when it reads what it is sent. */
struct client *network_reader(const struct task_network *n);

/* ---- task_network_environment.c ---- */

/* Returns the environment with the variables by which programs find the proxies, in place of those that the client or the server has set. */
const char *const *network_environment(struct arena *a, const char *const *env, uint16_t http_port,
                                       uint16_t socks_port, bool allows_local);

/* ---- task_network_questions.c ---- */

void network_asked(struct gate_network *gate, const struct egressmsg_ask *ask);
void network_withdrawn(struct gate_network *gate, uint32_t number);
/* Forgets all questions; nobody waits for their answers. */
void network_questions_drop(struct task_network *n);
/* Asks the client of the session what it was not asked yet. */
void network_questions_ask_again(struct task_network *n);

/* ---- task_network_told.c ---- */

void network_decided(struct gate_network *gate, const struct egressmsg_decided *m);
void network_ended(struct gate_network *gate, const struct egressmsg_ended *m);
/* Tells the client what it has not been told, as far as there is room in its queue. */
void network_tell_waiting(struct task_network *n);
void network_decisions_drop(struct task_network *n);

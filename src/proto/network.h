/* network: the member networkProxy of process/start, which says what a command may reach (docs/PROTOCOL.md).
 *
 * Plain data; slices live as long as the request. What the server cannot enforce is refused here, never ignored.
 */
#pragma once

#include "netrule/policy.h"
#include "proto/decode.h"

struct process_network {
        struct net_policy policy;
        struct slice packed;     /* the policy as net_policy_write gives it */
        uint64_t question_ms;    /* policyDecisionTimeoutMs; 0: nobody is asked */
        bool wants_unix_sockets; /* dangerouslyAllowAllUnixSockets */
        bool is_enforced;        /* set by process_start_decode: the sandbox has no other network */
        struct slice execution_id, environment_id, conversation_id; /* for the log; p == NULL: none */
};

/* Decodes the value of networkProxy. The errors are those of the reference server, in its order: first types, then the time limit and
 * the process id of a client that wants to be asked, then the rules. */
void process_network_decode(struct decoder *outer, const struct json *value, struct slice process_id,
                            struct process_network *ret);

/* Checks the value of managedNetwork, which describes a proxy of the client and has no effect here. */
void process_managed_network_check(struct decoder *outer, const struct json *value);

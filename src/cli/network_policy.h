/* network_policy: which hosts a command may reach, as people say it: hosts with ports on the command line, and network rules. Pure.
 *
 * A host without a port means all its ports. Servers that know no ports get two lists of patterns, others get rules.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "farhand/farhand.h"
#include "rules/exec_rules.h"

struct network_entry {
        enum farhand_network_action action; /* FARHAND_NETWORK_ALLOW or _DENY */
        const char *host;                   /* a pattern, or an address without brackets */
        struct farhand_ports *ports;        /* none: all */
        size_t port_count;
};

struct network_policy {
        struct arena *arena;
        struct network_entry *entries; /* in the arena */
        size_t count, room;
};

/* Adds HOST, HOST:PORT or HOST:FROM-TO; an IPv6 address with a port stands in brackets. Returns 0, or -EINVAL with *err. */
NODISCARD int network_policy_add(struct network_policy *p, enum farhand_network_action action,
                                 const char *text, struct err *err);
/* Adds the network rules that count. */
void network_policy_add_rules(struct network_policy *p, const struct exec_rules *rules);

/* Fills what the library takes, in the arena. `has_rules`: the server knows rules with ports (egressV1). Returns 0, or -EOPNOTSUPP when
 * ports are named and it does not. */
NODISCARD int network_policy_make(const struct network_policy *p, bool has_rules, struct farhand_network *ret,
                                  struct err *err);

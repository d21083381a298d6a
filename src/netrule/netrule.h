/* netrule: what a managed network allows: the decision about one connection, in the order of the reference server.
 *
 *      1. What is denied stays denied. A rule of `rules` about addresses denies again when the address is known.
 *      2. localhost and literals that are not public need an exact entry, allowLocalBinding or, with `rules`, a cidr; they are never asked
 *         about without it.
 *      3. What is allowed and not under review goes on; a client that can be asked is asked about the rest.
 *      4. Limited mode: how an allowed host is used.
 *      5. The name is resolved, by the caller; net_address_is_allowed says which of its addresses may be used. It is asked again with the
 *         very address that is connected to.
 *
 * All functions are pure, and open nothing. A policy, a verdict and a target are the caller's.
 */
#pragma once

#include "netrule/address.h"
#include "netrule/host.h"
#include "netrule/pattern.h"
#include "netrule/policy.h"
#include "netrule/policy_pack.h"
#include "netrule/reason.h"

/* Steps 1 to 4. `t->host` is normalized: any other host is not allowed. NET_ASK: ask the client; when it allows, net_judge_mode
 * is asked next. */
NODISCARD struct net_verdict net_judge(const struct net_policy *p, const struct net_target *t);
/* Step 4 alone, for a host that the client has allowed. Returns false when the mode has nothing against it, and *v is as it was. */
bool net_judge_mode(const struct net_policy *p, const struct net_target *t, struct net_verdict *v);
/* Step 5: may a connection that got this verdict (or a client's permission after it) use this address? */
NODISCARD bool net_address_is_allowed(const struct net_policy *p, const struct net_verdict *v,
                                      const struct net_target *t, const struct sockaddr_storage *a);

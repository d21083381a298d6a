/* pattern: which hosts an entry of `domains`, `reviewDomains` or `rules` means.
 *
 *      x         that host
 *      *.x       hosts below x, and not x
 *      **.x      x and hosts below it
 *      *         any host; not to deny
 *      a*b, a?b  as in the shell; the star takes dots too
 *
 * The reference server reads patterns like this, and what it accepts is accepted here. It ignores a port behind the host: so
 * does this, because patterns of `domains` speak of hosts alone.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "netrule/policy.h"

/* What comes in front of every text of net_policy_check_*, and the text about a proxy that is not enabled. */
#define NET_CONFIG_ERROR "invalid network proxy config: "
#define NET_CONFIG_NOT_ENABLED "executor-local network proxy launch requires an enabled proxy"

/* Checks a pattern and gives it normalized; the result lives in the arena. NET_ASK stands for reviewDomains. -EINVAL: err has the text of
 * the reference server without NET_CONFIG_ERROR. Entries that are refused are reported in this order: unix sockets, patterns to deny, to
 * allow, to review; each group in the order of the bytes of its keys. */
NODISCARD int net_policy_check_pattern(struct arena *a, struct slice pattern, enum net_action action,
                                       struct slice *ret, struct err *err);
/* As net_policy_check_pattern, for `rules`, where "*" may be denied too, and where an entry without effect is an error: ports, zones,
 * characters that no host has. */
NODISCARD int net_policy_check_rule_host(struct arena *a, struct slice pattern, struct slice *ret,
                                         struct err *err);
/* Checks a path of `unixSockets` that is allowed; `index` counts those. */
NODISCARD int net_policy_check_unix_socket(struct slice path, size_t index, struct err *err);

/* Is the pattern as net_policy_check_pattern gives it? */
NODISCARD bool net_pattern_is_normal(struct slice pattern);
NODISCARD bool net_pattern_is_exact(struct slice pattern); /* has no wildcard */
/* Both are normalized. */
NODISCARD bool net_pattern_matches(struct slice pattern, struct slice host);

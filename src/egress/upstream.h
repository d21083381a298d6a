/* upstream: the proxies that the environment of the server names, through which networks with allowUpstreamProxy reach the world. */
#pragma once

#include "base/slice.h"
#include "netrule/policy.h"

struct upstream {
        bool is_set;
        bool is_usable; /* if it is not, nothing is reached, rather than past it */
        struct slice host;
        uint16_t port;
};

/* Reads "http://HOST[:PORT][/]" or "HOST[:PORT]". The slice points into `text`. */
struct upstream upstream_read(const char *text);
/* Which proxy leads to this target? None (`is_set` false) for addresses and localhost. */
NODISCARD struct upstream upstream_for(const struct net_policy *p, const struct net_target *t);

/* upstream: finds the proxy behind which the world is. */
#include "egress/upstream.h"

#include "egress/http_head.h"
#include "egress/resolver.h"

#include <stdlib.h>

struct upstream upstream_read(const char *text)
{
        struct upstream u = { .is_set = text && *text };
        struct slice rest = slice_from_str(text);
        if (!u.is_set)
                return u;
        if (rest.n > 7 && slice_eq_nocase(slice_from(rest.p, 7), S("http://")))
                rest = slice_from(rest.p + 7, rest.n - 7);
        if (rest.n > 0 && rest.p[rest.n - 1] == '/')
                rest.n--;
        u.is_usable = http_authority_read(rest, 80, &u.host, &u.port) == 0;
        return u;
}

/* Either case is usual. */
static const char *variable(const char *upper, const char *lower)
{
        const char *value = getenv(upper);
        return value && *value ? value : getenv(lower);
}

struct upstream upstream_for(const struct net_policy *p, const struct net_target *t)
{
        struct sockaddr_storage address;
        if (!p->uses_upstream || slice_eq(t->host, S("localhost")) ||
            resolver_literal(t->host, t->port, &address))
                return (struct upstream){ 0 };
        const char *value = t->protocol == NET_HTTP ? variable("HTTP_PROXY", "http_proxy")
                                                    : variable("HTTPS_PROXY", "https_proxy");
        return upstream_read(value && *value ? value : variable("ALL_PROXY", "all_proxy"));
}

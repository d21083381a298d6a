/* network: which hosts the commands of a model may reach: options of the command line, and the network rules of the user. */
#include "mcp/network.h"

#include "cli/network_policy.h"

#include <errno.h>
#include <stdio.h>

#define ASK_MS (10u * 60 * 1000) /* the user has so long for an answer */

static bool asks(const struct mcp_network *n)
{
        return n->ask && strcmp(n->ask, "user") == 0;
}

static int add_all(struct network_policy *p, enum farhand_network_action action, const struct arg_list *list,
                   const char *option, struct err *err)
{
        for (size_t i = 0; i < list->count; i++) {
                int r = network_policy_add(p, action, list->items[i], err);
                if (r < 0)
                        return err_wrap(err, "--%s", option);
        }
        return 0;
}

static int add_options(const struct mcp_network *n, struct network_policy *p, struct err *err)
{
        int r = add_all(p, FARHAND_NETWORK_ALLOW, &n->allow, "allow", err);
        return r < 0 ? r : add_all(p, FARHAND_NETWORK_DENY, &n->deny, "deny", err);
}

bool mcp_network_check(const struct mcp_network *n)
{
        _arena_ struct arena a = ARENA_INIT;
        struct network_policy p = { .arena = &a };
        struct err err = ERR_INIT;
        if (n->ask && !asks(n) && strcmp(n->ask, "never") != 0)
                return args_refuse("ask-hosts", n->ask, "never or user") == ARGS_OK;
        if (add_options(n, &p, &err) == 0)
                return true;
        fprintf(stderr, "error: %s\n", err.text);
        return false;
}

void mcp_network_release(struct mcp_network *n)
{
        arg_list_release(&n->allow);
        arg_list_release(&n->deny);
}

int mcp_network_make(void *network, const struct farhand *f, struct arena *a,
                     const struct farhand_network **ret, struct err *err)
{
        const struct mcp_network *n = network;
        struct network_policy p = { .arena = a };
        bool is_named = n->allow.count + n->deny.count > 0;
        bool has_proxy = farhand_has_capability(f, "networkProxyLaunch");
        *ret = NULL;
        if (n->rulebook && (!n->is_open || is_named || asks(n)))
                network_policy_add_rules(&p, rulebook_rules(n->rulebook));
        if (p.count == 0 && !is_named && !asks(n))
                return 0;
        if (!has_proxy && (is_named || n->is_open))
                return err_set(err, 0, -EOPNOTSUPP,
                               "this server manages no network (networkProxyLaunch): no hosts can be named");
        if (!has_proxy)
                return 0; /* the network stays closed */
        struct farhand_network *made = arena_new(a, struct farhand_network);
        *made = (struct farhand_network)FARHAND_NETWORK_INIT;
        made->ask_timeout_ms = asks(n) ? ASK_MS : 0;
        int r = add_options(n, &p, err);
        if (r == 0)
                r = network_policy_make(&p, farhand_has_capability(f, "egressV1"), made, err);
        if (r == 0)
                *ret = made;
        return r;
}

/* network_args: the options of a command that say which hosts it may reach. */
#include "cli/network_args.h"

#include <errno.h>
#include <stdio.h>

#define ASK_MS (15u * 60 * 1000) /* a person has so long for an answer */

bool network_args_check(const struct network_args *n, const struct command_args *c)
{
        bool is_boxed = c->is_read_only || c->is_workspace_write || c->profile_file;
        if (n->allow.count + n->deny.count == 0)
                return true;
        if (!is_boxed)
                fprintf(stderr, "error: --allow and --deny need --read-only, --workspace-write or --profile: "
                                "without a "
                                "sandbox nothing keeps a command from going around them\n");
        else if (c->has_network)
                fprintf(stderr, "error: --network leaves the network open: --allow and --deny would have no "
                                "effect\n");
        return is_boxed && !c->has_network;
}

void network_args_release(struct network_args *n)
{
        arg_list_release(&n->allow);
        arg_list_release(&n->deny);
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

static int make(const struct network_wishes *w, struct network_policy *p, bool has_rules,
                struct farhand_network *ret, struct err *err)
{
        int r = add_all(p, FARHAND_NETWORK_ALLOW, &w->args->allow, "allow", err);
        if (r == 0)
                r = add_all(p, FARHAND_NETWORK_DENY, &w->args->deny, "deny", err);
        if (r == 0)
                r = network_policy_make(p, has_rules, ret, err);
        return r;
}

int network_args_make(const struct network_wishes *w, struct remote *r, const struct farhand *f,
                      const struct farhand_network **ret)
{
        const struct command_args *c = w->command;
        struct network_policy p = { .arena = &r->arena };
        struct err err = ERR_INIT;
        bool is_explicit = w->args->allow.count + w->args->deny.count > 0;
        bool is_closed = (c->is_read_only || c->is_workspace_write) && !c->has_network;
        *ret = NULL;
        if (w->rules)
                network_policy_add_rules(&p, w->rules);
        bool has_rules = p.count > 0 && !c->has_network && (is_closed || c->profile_file);
        if (p.count > 0 && !has_rules)
                remote_say(r, "the network rules have no effect: the network of this command is open");
        if (!is_explicit && !has_rules && !(w->may_ask && is_closed))
                return 0;
        if (!farhand_has_capability(f, "networkProxyLaunch")) {
                if (!is_explicit && is_closed)
                        return 0; /* the network stays closed */
                remote_say(r, "this server manages no network (networkProxyLaunch): no hosts can be named");
                return -EOPNOTSUPP;
        }
        struct farhand_network *network = arena_new(&r->arena, struct farhand_network);
        *network = (struct farhand_network)FARHAND_NETWORK_INIT;
        network->ask_timeout_ms = w->may_ask ? ASK_MS : 0;
        int result = make(w, &p, farhand_has_capability(f, "egressV1"), network, &err);
        if (result < 0)
                remote_say(r, "%s", err.text);
        else
                *ret = network;
        return result;
}

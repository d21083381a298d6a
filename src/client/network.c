/* network: the managed network of a process: asks the server for it, and tells what was decided about its connections. */
#include "client/client.h"

#include "client/error.h"
#include "client/member.h"

#include <errno.h>

static struct farhand_network whole(const struct farhand_network *given)
{
        struct farhand_network n = { 0 };
        memcpy(&n, given, MIN(given->size, sizeof(n)));
        return n;
}

/* Returns rule `i` of an array whose elements may be shorter than ours. */
static struct farhand_network_rule rule_at(const struct farhand_network *n, size_t i)
{
        struct farhand_network_rule rule = { 0 };
        memcpy(&rule, (const char *)n->rules + i * n->rules->size, MIN(n->rules->size, sizeof(rule)));
        return rule;
}

static int check_rules(const struct farhand *f, const struct farhand_network *n,
                       struct farhand_error *ret_error)
{
        if ((n->allow && n->allow[0]) || (n->deny && n->deny[0]))
                return error_set(ret_error, -EINVAL, "a network has either lists or rules");
        if (!farhand_has_capability(f, "egressV1"))
                return error_set(ret_error, -EOPNOTSUPP,
                                 "this server has no network rules with ports or addresses (egressV1)");
        if (n->rules->size < offsetof(struct farhand_network_rule, protocols))
                return error_set(ret_error, -EINVAL, "a network rule has no size");
        for (size_t i = 0; i < n->rule_count; i++) {
                const struct farhand_network_rule rule = rule_at(n, i);
                if (!rule.host && !rule.cidr)
                        return error_set(ret_error, -EINVAL, "a network rule has a host or a cidr");
                if ((unsigned)rule.action > FARHAND_NETWORK_ASK)
                        return error_set(ret_error, -EINVAL, "a network rule allows, denies or asks");
        }
        return 0;
}

int client_network_check(const struct farhand *f, const struct farhand_network *given,
                         struct farhand_error *ret_error)
{
        if (given->size < offsetof(struct farhand_network, review))
                return error_set(ret_error, -EINVAL, "a network has no size");
        const struct farhand_network n = whole(given);
        if (!farhand_has_capability(f, "networkProxyLaunch"))
                return error_set(ret_error, -EOPNOTSUPP,
                                 "this server manages no network (networkProxyLaunch)");
        if (n.review && n.review[0] && !farhand_has_capability(f, "networkProxyReviewDomains"))
                return error_set(
                        ret_error, -EOPNOTSUPP,
                        "this server asks about no host that is allowed (networkProxyReviewDomains)");
        if (n.mode && strcmp(n.mode, "observe") == 0 && !farhand_has_capability(f, "egressV1"))
                return error_set(ret_error, -EOPNOTSUPP, "this server cannot observe a network (egressV1)");
        return n.rule_count > 0 ? check_rules(f, &n, ret_error) : 0;
}

/* ---- process/start ---- */

static void write_texts(struct jsonw *w, const char *key, const char *const *texts)
{
        jsonw_key(w, key);
        jsonw_array(w);
        for (; texts && *texts; texts++)
                jsonw_str(w, *texts);
        jsonw_array_end(w);
}

/* Writes members with this value. The names are the caller's, so they are written as strings are. */
static void write_domains(struct jsonw *w, const char *const *patterns, const char *value)
{
        for (; patterns && *patterns; patterns++) {
                _buf_ struct buf key = BUF_INIT(REQUEST_MAX);
                struct jsonw k;
                jsonw_begin(&k, &key);
                jsonw_str(&k, *patterns);
                if (jsonw_end(&k) < 0)
                        continue;
                key.p[key.n - 1] = '\0';
                jsonw_key(w, key.p + 1);
                jsonw_str(w, value);
        }
}

static const char *const actions[] = {
        [FARHAND_NETWORK_ALLOW] = "allow", [FARHAND_NETWORK_DENY] = "deny", [FARHAND_NETWORK_ASK] = "ask"
};

/* A port is a number, and a range is a text. */
static void write_ports(struct jsonw *w, const struct farhand_network_rule *rule)
{
        if (rule->port_count == 0)
                return;
        jsonw_key(w, "ports");
        jsonw_array(w);
        for (size_t i = 0; i < rule->port_count; i++) {
                char range[16];
                if (rule->ports[i].from == rule->ports[i].to) {
                        jsonw_u64(w, rule->ports[i].from);
                        continue;
                }
                (void)snprintf(range, sizeof(range), "%u-%u", rule->ports[i].from, rule->ports[i].to);
                jsonw_str(w, range);
        }
        jsonw_array_end(w);
}

static void write_rules(struct jsonw *w, const struct farhand_network *n)
{
        jsonw_key(w, "rules");
        jsonw_array(w);
        for (size_t i = 0; i < n->rule_count; i++) {
                const struct farhand_network_rule rule = rule_at(n, i);
                jsonw_object(w);
                if (rule.host)
                        jsonw_member_str(w, "host", rule.host);
                if (rule.cidr)
                        jsonw_member_str(w, "cidr", rule.cidr);
                write_ports(w, &rule);
                if (rule.protocols)
                        write_texts(w, "protocols", rule.protocols);
                if (rule.methods)
                        write_texts(w, "methods", rule.methods);
                jsonw_member_str(w, "action", actions[rule.action]);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
}

static void write_proxy(struct jsonw *w, const struct farhand_network *n)
{
        jsonw_key(w, "proxy");
        jsonw_object(w);
        jsonw_member_bool(w, "enabled", true);
        jsonw_member_bool(w, "enableSocks5", !n->no_socks);
        jsonw_member_bool(w, "enableSocks5Udp", false);
        jsonw_member_bool(w, "allowUpstreamProxy", n->use_upstream);
        jsonw_member_bool(w, "dangerouslyAllowAllUnixSockets", false);
        jsonw_member_bool(w, "allowLocalBinding", n->allow_local);
        jsonw_member_str(w, "mode", n->mode ? n->mode : "full");
        jsonw_key(w, "domains");
        jsonw_object(w);
        write_domains(w, n->allow, "allow");
        write_domains(w, n->deny, "deny");
        jsonw_object_end(w);
        jsonw_member_null(w, "unixSockets");
        if (n->review && n->review[0])
                write_texts(w, "reviewDomains", n->review);
        if (n->rule_count > 0)
                write_rules(w, n);
        jsonw_object_end(w);
}

void client_network_write(struct jsonw *w, const struct farhand_network *given)
{
        const struct farhand_network n = whole(given);
        jsonw_key(w, "networkProxy");
        jsonw_object(w);
        write_proxy(w, &n);
        if (n.ask_timeout_ms > 0)
                jsonw_member_u64(w, "policyDecisionTimeoutMs", n.ask_timeout_ms);
        jsonw_object_end(w);
        jsonw_member_bool(w, "enforceManagedNetwork", true); /* in a sandbox the proxy is the only network */
}

unsigned client_network_timeout_ms(const struct farhand_network *given)
{
        return given ? whole(given).ask_timeout_ms : 0;
}

/* ---- network/policyDecision ---- */

void client_process_on_network_decision(struct farhand_process *p, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct json_doc *d = &m->doc;
        uint64_t port = 0;
        size_t action =
                slice_find(member_string(&a, d, m->params, S("decision")), actions, ARRAY_LEN(actions));
        struct farhand_network_decision decision = {
                .action = (enum farhand_network_action)action,
                .source = member_text(&a, d, m->params, S("source")),
                .reason = member_text(&a, d, m->params, S("reason")),
                .protocol = member_text(&a, d, m->params, S("protocol")),
                .host = member_text(&a, d, m->params, S("host")),
                .method = member_text(&a, d, m->params, S("method")),
                .client = member_text(&a, d, m->params, S("client")),
                .time = member_text(&a, d, m->params, S("timestamp")),
                .is_overridden = member_is_true(d, m->params, S("policyOverride")),
                .count = 1,
        };
        struct slice scope = member_string(&a, d, m->params, S("scope"));
        bool is_good = action < ARRAY_LEN(actions) && decision.source && decision.reason &&
                       decision.protocol && decision.host && decision.time &&
                       member_u64(d, m->params, S("port"), &port) && port <= UINT16_MAX;
        if (!is_good || !p->events.on_network_decision)
                return;
        decision.port = (uint16_t)port;
        decision.is_guard = scope.p && !slice_eq(scope, S("domain"));
        (void)member_u64(d, m->params, S("count"), &decision.count);
        p->events.on_network_decision(p, p->arg, &decision);
}

/* network_policy_test: what people write about hosts, and what becomes of it. */
#include "cli/network_policy.h"

#include "unit.h"

#include <errno.h>

/* Returns the policy of one host as a text: its lists or its rules. */
static const char *made(struct arena *a, const char *text, bool has_rules, enum farhand_network_action action)
{
        struct network_policy p = { .arena = a };
        struct farhand_network n = FARHAND_NETWORK_INIT;
        struct err err = ERR_INIT;

        if (network_policy_add(&p, action, text, &err) < 0 ||
            network_policy_make(&p, has_rules, &n, &err) < 0)
                return arena_dup(a, slice_from_str(err.text));
        if (n.rule_count == 0)
                return arena_printf(a, "%s%s", n.allow[0] ? "allow " : "deny ",
                                    n.allow[0] ? n.allow[0] : n.deny[0]);
        return arena_printf(a, "%s %s %s %u-%u", n.rules->action == FARHAND_NETWORK_ALLOW ? "allow" : "deny",
                            n.rules->host ? n.rules->host : "-", n.rules->cidr ? n.rules->cidr : "-",
                            n.rules->ports->from, n.rules->ports->to);
}

TEST(hosts_are_read_as_people_write_them)
{
        static const struct {
                const char *text, *want;
        } rows[] = {
                { "example.org", "allow example.org" },
                { "**.example.org", "allow **.example.org" },
                { "*", "allow *" },
                { "::1", "allow ::1" },
                { "[fe80::1]", "allow fe80::1" },
                { "10.0.0.1", "allow 10.0.0.1" },
                { "example.org:22", "allow example.org - 22-22" },
                { "*.example.org:8000-8010", "allow *.example.org - 8000-8010" },
                { "10.0.0.1:80", "allow - 10.0.0.1/32 80-80" },
                { "[::1]:80", "allow - ::1/128 80-80" },
                { "localhost:8080", "allow localhost 127.0.0.0/8 8080-8080" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(made(&a, rows[i].text, true, FARHAND_NETWORK_ALLOW), rows[i].want);
        }
}

TEST(what_is_no_host_is_refused_with_a_reason)
{
        static const struct {
                const char *text, *want;
        } rows[] = {
                { "", "is no host: a name" },
                { ":80", "is no host: a name" },
                { "a b", "is no host: a name" },
                { "a\n", "is no host: a name" },
                { "[::1", "is no host: a name" },
                { "[::1]x", "is no host: a name" },
                { "h\xc3\xa9", "is no host: a name" },
                { "https://a", "leave the scheme" },
                { "a/b", "leave the scheme" },
                { "a:", "has no port" },
                { "a:0", "has no port" },
                { "a:65536", "has no port" },
                { "a:9-8", "has no port" },
                { "a:http", "has no port" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                const char *text = made(&a, rows[i].text, true, FARHAND_NETWORK_ALLOW);
                if (!strstr(text, rows[i].want))
                        eq_str(text, rows[i].want);
        }
        _arena_ struct arena a = ARENA_INIT;
        ok(strstr(made(&a, "*", true, FARHAND_NETWORK_DENY), "denied anyway"));
        ok(strstr(made(&a, "a:22", false, FARHAND_NETWORK_ALLOW), "knows no ports (egressV1)"));
}

TEST(network_rules_become_a_policy)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct exec_rules_text text = { "t",
                                              S("network_rule('a', 'http', 'allow')\n"
                                                "network_rule('b', 'http', 'deny', ports=[22, '80-81'])\n") };
        struct network_policy p = { .arena = &a };
        struct farhand_network n = FARHAND_NETWORK_INIT;
        struct err err = ERR_INIT;
        _exec_rules_ struct exec_rules *rules = exec_rules_new(&text, 1, NULL, &err);

        network_policy_add_rules(&p, rules);
        eq_int(network_policy_make(&p, false, &n, &err), -EOPNOTSUPP);
        eq_int(network_policy_make(&p, true, &n, &err), 0);
        eq_u64(n.rule_count, 2);
        eq_str(n.rules[0].host, "a");
        eq_int(n.rules[0].ports->to, UINT16_MAX);
        eq_int(n.rules[1].action, FARHAND_NETWORK_DENY);
        eq_u64(n.rules[1].port_count, 2);
        eq_int(n.rules[1].ports[1].to, 81);
}

/* netrule_test: the decisions of the reference server as they were recorded, and those that are ours. */
#include "base/limits.h"
#include "netrule/netrule.h"
#include "unit.h"

#include <stdio.h>

/* A rule as the tables below write it: "+host" allows, "-host" denies, "?host" asks; "host" may be "@cidr". */
static struct net_rule rule_of(const char *text)
{
        struct net_rule r = {
                .action = text[0] == '+'   ? NET_ALLOW
                          : text[0] == '-' ? NET_DENY
                                           : NET_ASK,
                .host = slice_from_str(text + 1),
        };
        const char *at = strchr(text, '@');
        if (at) {
                r.host.n = (size_t)(at - text) - 1;
                r.has_cidr = true;
                eq_int(net_cidr_parse(slice_from_str(at + 1), &r.cidr), 0);
        }
        return r;
}

#define RULES_MAX 12

struct rules {
        struct net_rule all[RULES_MAX];
        struct net_policy policy;
};

static void make(struct rules *r, const char *const *texts)
{
        *r = (struct rules){ 0 };
        r->policy.rules = r->all;
        for (; texts[r->policy.rule_count]; r->policy.rule_count++)
                r->all[r->policy.rule_count] = rule_of(texts[r->policy.rule_count]);
}

static struct net_target to(enum net_protocol protocol, const char *host, uint16_t port, const char *method)
{
        return (struct net_target){
                .protocol = protocol,
                .host = slice_from_str(host),
                .port = port,
                .method = slice_from_str(method),
        };
}

static void is_verdict(const struct net_policy *p, struct net_target t, const char *expected)
{
        struct net_verdict v = net_judge(p, &t);
        char text[100];
        (void)snprintf(text, sizeof(text), "%s %s %s%s%s", net_action_word(v.action),
                       net_source_word(v.source), net_reason_word(v.reason), v.is_guard ? " guard" : "",
                       v.follows_allow ? " after" : "");
        if (strcmp(text, expected) != 0)
                print_message("%.*s:%u %.*s\n", SLICE(t.host), t.port, SLICE(t.method));
        eq_str(text, expected);
}

#define ALLOWED "allow baseline_policy allow"
#define NOT_ALLOWED "deny baseline_policy not_allowed"
#define DENIED "deny baseline_policy denied"
#define LOCAL "deny baseline_policy not_allowed_local"
#define ASKED "ask baseline_policy not_allowed"

struct row {
        const char *host, *expected;
};

static void all_are(const struct net_policy *p, enum net_protocol protocol, const struct row *rows,
                    size_t count)
{
        for (size_t i = 0; i < count; i++)
                is_verdict(p, to(protocol, rows[i].host, 80, protocol == NET_HTTP ? "GET" : ""),
                           rows[i].expected);
}

static const char *const recorded[] = { "+127.0.0.1",  "+localhost", "+loop.test",
                                        "+*.sub.test", "-bad.test",  "+rebind.test",
                                        "+priv.test",  "+nx.test",   "+slow.test",
                                        NULL };

TEST(plain_requests_are_decided_as_recorded)
{
        static const struct row rows[] = {
                { "127.0.0.1", ALLOWED },       { "localhost", ALLOWED },
                { "other.test", NOT_ALLOWED },  { "bad.test", DENIED },
                { "10.1.2.3", LOCAL },          { "2130706433", NOT_ALLOWED },
                { "127.1", NOT_ALLOWED },       { "::ffff:127.0.0.1", LOCAL },
                { "loop.test", ALLOWED },       { "priv.test", ALLOWED },
                { "a.sub.test", ALLOWED },      { "sub.test", NOT_ALLOWED },
                { "127.0.0.2", LOCAL },         { "::1", LOCAL },
                { "a.localhost", NOT_ALLOWED }, { "8.8.8.8", NOT_ALLOWED },
        };
        struct rules r;
        make(&r, recorded);
        all_are(&r.policy, NET_HTTP, rows, ARRAY_LEN(rows));
        all_are(&r.policy, NET_HTTPS_CONNECT, rows, ARRAY_LEN(rows));
        all_are(&r.policy, NET_SOCKS5_TCP, rows, ARRAY_LEN(rows));
        all_are(&r.policy, NET_TCP, rows, ARRAY_LEN(rows));
}

TEST(limited_mode_is_decided_as_recorded)
{
        static const char *const rules[] = { "+127.0.0.1", "-bad.test", NULL };
        static const char *const refused[] = { "POST", "PUT", "get", "TRACE", "DELETE", "" };
        struct rules r;
        make(&r, rules);
        r.policy.is_limited = true;
        is_verdict(&r.policy, to(NET_HTTP, "127.0.0.1", 80, "GET"), ALLOWED);
        is_verdict(&r.policy, to(NET_HTTP, "127.0.0.1", 80, "HEAD"), ALLOWED);
        is_verdict(&r.policy, to(NET_HTTP, "127.0.0.1", 80, "OPTIONS"), ALLOWED);
        for (size_t i = 0; i < ARRAY_LEN(refused); i++)
                is_verdict(&r.policy, to(NET_HTTP, "127.0.0.1", 80, refused[i]),
                           "deny mode_guard method_not_allowed guard after");
        is_verdict(&r.policy, to(NET_HTTPS_CONNECT, "127.0.0.1", 43565, "CONNECT"),
                   "deny mode_guard mitm_required guard after");
        is_verdict(&r.policy, to(NET_SOCKS5_TCP, "127.0.0.1", 41923, ""),
                   "deny mode_guard method_not_allowed guard");
        is_verdict(&r.policy, to(NET_SOCKS5_TCP, "127.0.0.1", 443, ""),
                   "deny mode_guard mitm_required guard after");
        is_verdict(&r.policy, to(NET_TCP, "127.0.0.1", 22, ""), "deny mode_guard method_not_allowed guard");
        is_verdict(&r.policy, to(NET_HTTP, "bad.test", 80, "POST"), DENIED);
        is_verdict(&r.policy, to(NET_HTTPS_CONNECT, "other.test", 443, "CONNECT"), NOT_ALLOWED);
        is_verdict(&r.policy, to(NET_DNS, "bad.test", 0, ""), DENIED);

        r.policy.has_questions = true;
        struct net_target t = to(NET_HTTPS_CONNECT, "other.test", 443, "CONNECT");
        is_verdict(&r.policy, t, ASKED);
        struct net_verdict v = net_judge(&r.policy, &t);
        ok(net_judge_mode(&r.policy, &t, &v));
        ok(v.is_guard && v.follows_allow && v.action == NET_DENY && v.reason == NET_MITM_REQUIRED);
}

TEST(questions_are_asked_as_recorded)
{
        static const char *const rules[] = { "-bad.test", NULL };
        static const struct row rows[] = {
                { "loop.test", ASKED }, { "other.test", ASKED }, { "localhost", LOCAL },
                { "127.0.0.1", LOCAL }, { "bad.test", DENIED },
        };
        static const struct row local[] = { { "loop.test", ASKED },
                                            { "127.0.0.1", ASKED },
                                            { "localhost", ASKED } };
        struct rules r;
        make(&r, rules);
        r.policy.has_questions = true;
        all_are(&r.policy, NET_HTTP, rows, ARRAY_LEN(rows));
        r.policy.allows_local = true;
        all_are(&r.policy, NET_HTTP, local, ARRAY_LEN(local));
}

TEST(reviews_are_asked_about_as_recorded)
{
        static const char *const rules[] = { "+loop.test", "+*.sub.test", "+127.0.0.1", NULL };
        static const char *const any[] = { "+*", NULL };
        struct slice reviews[] = { S("loop.test"), S("127.0.0.1") }, below[] = { S("**.test") };
        static const struct row rows[] = { { "loop.test", ASKED },
                                           { "a.sub.test", ALLOWED },
                                           { "127.0.0.1", ASKED } };
        static const struct row without[] = { { "loop.test", NOT_ALLOWED },
                                              { "a.sub.test", ALLOWED },
                                              { "127.0.0.1", NOT_ALLOWED } };
        struct rules r;
        make(&r, rules);
        r.policy.reviews = reviews;
        r.policy.review_count = 2;
        r.policy.allows_local = true;
        all_are(&r.policy, NET_HTTP, without, ARRAY_LEN(without));
        r.policy.has_questions = true;
        all_are(&r.policy, NET_HTTP, rows, ARRAY_LEN(rows));

        make(&r, any);
        r.policy.reviews = below;
        r.policy.review_count = 1;
        r.policy.has_questions = true;
        is_verdict(&r.policy, to(NET_HTTP, "loop.test", 80, "GET"), ASKED);
        is_verdict(&r.policy, to(NET_HTTP, "loop.example", 80, "GET"), ALLOWED);
}

TEST(a_host_that_is_not_normalized_is_never_allowed)
{
        static const char *const rules[] = { "+*", NULL };
        static const char *const hosts[] = { "",       "A",    "a.", "*",    "a b", "[::1]",
                                             "0:0::1", "a\nb", ".a", "a..b", "a:80" };
        struct rules r;
        make(&r, rules);
        r.policy.allows_local = true;
        r.policy.has_questions = true;
        for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
                is_verdict(&r.policy, to(NET_HTTP, hosts[i], 80, "GET"), NOT_ALLOWED);
}

TEST(what_denies_an_ipv4_address_denies_ipv6_spellings_of_it)
{
        static const char *const rules[] = { "+*", "-8.8.8.8", "-@9.9.9.0/24", NULL };
        static const struct row rows[] = {
                { "8.8.8.8", DENIED },          { "::ffff:8.8.8.8", DENIED }, { "2002:808:808::", DENIED },
                { "64:ff9b::808:808", DENIED }, { "::ffff:9.9.9.7", DENIED }, { "9.9.9.1", DENIED },
                { "::ffff:8.8.4.4", ALLOWED },  { "9.9.8.1", ALLOWED },       { "64:ff9b::808:404", LOCAL },
        };
        struct rules r;
        make(&r, rules);
        all_are(&r.policy, NET_HTTP, rows, ARRAY_LEN(rows));
}

TEST(ports_protocols_and_methods_narrow_a_rule)
{
        static const char *const rules[] = { "+a.test", "+b.test", "-c.test", "+c.test", NULL };
        struct net_ports web[] = { { 80, 80 }, { 8000, 8010 } }, mail[] = { { 25, 25 } };
        struct slice methods[] = { S("GET"), S("PROPFIND") };
        struct rules r;
        make(&r, rules);
        r.all[0].ports = web;
        r.all[0].port_count = 2;
        r.all[0].methods = methods;
        r.all[0].method_count = 2;
        r.all[1].protocols = 1u << NET_TCP;
        r.all[2].ports = mail;
        r.all[2].port_count = 1;
        is_verdict(&r.policy, to(NET_HTTP, "a.test", 80, "GET"), ALLOWED);
        is_verdict(&r.policy, to(NET_HTTP, "a.test", 8010, "PROPFIND"), ALLOWED);
        is_verdict(&r.policy, to(NET_HTTP, "a.test", 8011, "GET"), NOT_ALLOWED);
        is_verdict(&r.policy, to(NET_HTTP, "a.test", 80, "POST"), "deny baseline_policy method_not_allowed");
        is_verdict(&r.policy, to(NET_HTTPS_CONNECT, "a.test", 80, "CONNECT"),
                   "deny baseline_policy method_not_allowed");
        is_verdict(&r.policy, to(NET_TCP, "b.test", 5432, ""), ALLOWED);
        is_verdict(&r.policy, to(NET_HTTP, "b.test", 80, "GET"), NOT_ALLOWED);
        is_verdict(&r.policy, to(NET_SOCKS5_TCP, "c.test", 25, ""), DENIED);
        is_verdict(&r.policy, to(NET_SOCKS5_TCP, "c.test", 26, ""), ALLOWED);
        /* A name can be looked up when there is a way to use it. */
        is_verdict(&r.policy, to(NET_DNS, "a.test", 0, ""), ALLOWED);
        is_verdict(&r.policy, to(NET_DNS, "b.test", 0, ""), ALLOWED);
        is_verdict(&r.policy, to(NET_DNS, "c.test", 0, ""), ALLOWED);
        is_verdict(&r.policy, to(NET_DNS, "d.test", 0, ""), NOT_ALLOWED);
        r.all[2].port_count = 0;
        is_verdict(&r.policy, to(NET_DNS, "c.test", 0, ""), DENIED);
        /* A rule that denies a method denies a tunnel, in which the method cannot be seen. */
        r.all[2].methods = methods;
        r.all[2].method_count = 1;
        is_verdict(&r.policy, to(NET_HTTPS_CONNECT, "c.test", 443, "CONNECT"), DENIED);
        is_verdict(&r.policy, to(NET_HTTP, "c.test", 80, "GET"), DENIED);
        is_verdict(&r.policy, to(NET_HTTP, "c.test", 80, "POST"), ALLOWED);
}

TEST(a_rule_that_asks_comes_before_one_that_allows_and_behind_one_that_denies)
{
        static const char *const rules[] = { "+*", "?ask.test", "?no.test", "-no.test", NULL };
        struct rules r;
        make(&r, rules);
        is_verdict(&r.policy, to(NET_HTTP, "ask.test", 80, "GET"), NOT_ALLOWED);
        r.policy.has_questions = true;
        is_verdict(&r.policy, to(NET_HTTP, "ask.test", 80, "GET"), ASKED);
        is_verdict(&r.policy, to(NET_HTTP, "no.test", 80, "GET"), DENIED);
        is_verdict(&r.policy, to(NET_HTTP, "x.test", 80, "GET"), ALLOWED);
}

TEST(observing_lets_public_hosts_pass_and_tells_that_no_rule_allows_them)
{
        static const char *const rules[] = { "+a.test", "-b.test", NULL };
        static const struct row rows[] = {
                { "a.test", ALLOWED },
                { "b.test", DENIED },
                { "c.test", "allow baseline_policy not_allowed" },
                { "10.0.0.1", LOCAL },
        };
        struct rules r;
        make(&r, rules);
        r.policy.is_observing = true;
        all_are(&r.policy, NET_HTTP, rows, ARRAY_LEN(rows));
}

/* --- addresses ---------------------------------------------------------------------------------------------------- */

static bool leads_to(const struct net_policy *p, const char *host, const char *address)
{
        struct net_target t = to(NET_SOCKS5_TCP, host, 443, "");
        struct net_verdict v = net_judge(p, &t);
        ok(v.action != NET_DENY);
        struct net_address a;
        struct sockaddr_storage storage;
        ok(net_address_parse(slice_from_str(address), &a));
        (void)net_address_to(&a, 443, &storage);
        return net_address_is_allowed(p, &v, &t, &storage);
}

TEST(an_allowed_name_leads_to_public_addresses_only)
{
        struct rules r;
        make(&r, recorded);
        ok(leads_to(&r.policy, "loop.test", "8.8.8.8"));
        ok(leads_to(&r.policy, "loop.test", "2606:4700::1"));
        ok(!leads_to(&r.policy, "loop.test", "127.0.0.1"));
        ok(!leads_to(&r.policy, "loop.test", "10.0.0.1"));
        ok(!leads_to(&r.policy, "loop.test", "::ffff:10.0.0.1"));
        ok(!leads_to(&r.policy, "loop.test", "::1"));
        ok(leads_to(&r.policy, "127.0.0.1", "127.0.0.1"));
        ok(!leads_to(&r.policy, "127.0.0.1", "127.0.0.2"));
        ok(leads_to(&r.policy, "localhost", "127.0.0.1"));
        ok(leads_to(&r.policy, "localhost", "::1"));
        ok(!leads_to(&r.policy, "localhost", "10.0.0.1"));
        ok(!leads_to(&r.policy, "localhost", "8.8.8.8"));

        r.policy.allows_local = true;
        ok(leads_to(&r.policy, "loop.test", "127.0.0.1"));
        ok(leads_to(&r.policy, "loop.test", "10.0.0.1"));
        ok(!leads_to(&r.policy, "loop.test", "169.254.169.254"));
        ok(!leads_to(&r.policy, "loop.test", "168.63.129.16"));
        ok(!leads_to(&r.policy, "loop.test", "fd00:ec2::254"));
}

TEST(what_the_client_allows_leads_to_public_addresses_only)
{
        static const char *const rules[] = { NULL };
        struct rules r;
        make(&r, rules);
        r.policy.has_questions = true;
        ok(!leads_to(&r.policy, "loop.test", "127.0.0.1"));
        ok(leads_to(&r.policy, "loop.test", "8.8.8.8"));
        r.policy.allows_local = true;
        ok(leads_to(&r.policy, "loop.test", "127.0.0.1"));
        ok(leads_to(&r.policy, "127.0.0.1", "127.0.0.1"));
}

TEST(metadata_services_need_a_cidr)
{
        static const char *const rules[] = { "+169.254.169.254", "+168.63.129.16", "+*", NULL };
        static const char *const ranges[] = { "+@169.254.169.254/32", "+*", NULL };
        struct rules r;
        make(&r, rules);
        r.policy.allows_local = true;
        is_verdict(&r.policy, to(NET_HTTP, "169.254.169.254", 80, "GET"), LOCAL);
        is_verdict(&r.policy, to(NET_HTTP, "168.63.129.16", 80, "GET"), LOCAL);
        is_verdict(&r.policy, to(NET_HTTP, "::ffff:169.254.169.254", 80, "GET"), LOCAL);
        is_verdict(&r.policy, to(NET_HTTP, "169.254.1.1", 80, "GET"), ALLOWED);
        make(&r, ranges);
        r.policy.is_strict = true;
        is_verdict(&r.policy, to(NET_HTTP, "169.254.169.254", 80, "GET"), ALLOWED);
        ok(leads_to(&r.policy, "meta.test", "169.254.169.254"));
        ok(!leads_to(&r.policy, "meta.test", "169.254.170.2"));
}

TEST(rules_reach_private_addresses_by_cidr_only)
{
        static const char *const rules[] = { "+db.test",      "+@10.1.0.0/16",
                                             "-@10.1.9.0/24", "+127.0.0.1",
                                             "+localhost",    "+only.test@10.7.0.0/16",
                                             "?@10.8.0.0/16", NULL };
        static const struct row rows[] = {
                { "10.1.2.3", ALLOWED },  { "10.2.2.3", LOCAL },    { "10.1.9.3", DENIED },
                { "127.0.0.1", LOCAL },   { "localhost", LOCAL },   { "10.7.0.1", LOCAL },
                { "only.test", ALLOWED }, { "nobody.test", ASKED }, { "10.8.0.1", ASKED },
        };
        struct rules r;
        make(&r, rules);
        r.policy.is_strict = true;
        r.policy.has_questions = true;
        r.policy.allows_local = true; /* has no meaning with rules */
        all_are(&r.policy, NET_HTTP, rows, ARRAY_LEN(rows));
        ok(leads_to(&r.policy, "db.test", "8.8.8.8"));
        ok(leads_to(&r.policy, "db.test", "10.1.2.3"));
        ok(!leads_to(&r.policy, "db.test", "10.1.9.3"));
        ok(!leads_to(&r.policy, "db.test", "10.2.0.1"));
        ok(!leads_to(&r.policy, "db.test", "10.7.0.1"));
        ok(leads_to(&r.policy, "only.test", "10.7.0.1"));
        ok(!leads_to(&r.policy, "only.test", "8.8.8.8"));
        ok(leads_to(&r.policy, "10.8.0.1", "10.8.0.1"));
        ok(!leads_to(&r.policy, "db.test", "10.8.0.1"));
}

TEST(localhost_with_rules_needs_a_range_of_loopback)
{
        static const char *const rules[] = { "+localhost", "+@127.0.0.0/8", NULL };
        struct rules r;
        make(&r, rules);
        r.policy.is_strict = true;
        is_verdict(&r.policy, to(NET_HTTP, "localhost", 80, "GET"), ALLOWED);
        ok(leads_to(&r.policy, "localhost", "127.0.0.1"));
        ok(!leads_to(&r.policy, "localhost", "::1"));
}

TEST(addresses_of_other_families_are_refused)
{
        static const char *const rules[] = { "+*", NULL };
        struct rules r;
        make(&r, rules);
        struct net_target t = to(NET_HTTP, "a.test", 80, "GET");
        struct net_verdict v = net_judge(&r.policy, &t);
        struct sockaddr_storage a = { .ss_family = AF_UNIX };
        ok(!net_address_is_allowed(&r.policy, &v, &t, &a));
        ok(!net_address_is_public(&a));
}

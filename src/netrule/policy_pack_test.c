/* policy_pack_test: a policy is read back as it was written; one that is cut or broken is not read. */
#include "base/limits.h"
#include "base/mem.h"
#include "netrule/netrule.h"
#include "unit.h"

#include <errno.h>

static struct net_ports ports[] = { { 80, 80 }, { 8000, 8010 } };
static struct slice methods[] = { S("GET"), S("HEAD") };
static struct slice reviews[] = { S("**.review.test") };
static struct net_rule rules[] = {
        { .action = NET_ALLOW,
          .host = S("*.a.test"),
          .ports = ports,
          .port_count = 2,
          .protocols = 1,
          .methods = methods,
          .method_count = 2 },
        { .action = NET_DENY, .has_cidr = true, .cidr = { .address = { 0xfd }, .length = 8 } },
        { .action = NET_ASK, .host = S("b.test"), .has_cidr = true, .cidr = { .length = 0 } },
};
static const struct net_policy sample = {
        .is_limited = true,
        .allows_local = true,
        .has_questions = true,
        .rules = rules,
        .rule_count = 3,
        .reviews = reviews,
        .review_count = 1,
};

TEST(a_policy_is_read_back_as_it_was_written)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(MIB), again = BUF_INIT(MIB);
        struct net_policy p;
        eq_int(net_policy_write(&out, &sample), 0);
        eq_int(net_policy_read(&a, buf_slice(&out), &p), 0);
        ok(p.is_limited && p.allows_local && p.has_questions);
        ok(!p.is_observing && !p.uses_upstream && !p.has_socks && !p.is_strict);
        eq_int(p.rule_count, 3);
        eq_slice(p.rules[0].host, S("*.a.test"));
        eq_int(p.rules[0].ports[1].to, 8010);
        eq_slice(p.rules[0].methods[1], S("HEAD"));
        ok(p.rules[1].has_cidr && p.rules[1].cidr.length == 8 && p.rules[1].cidr.address[0] == 0xfd);
        eq_int(p.rules[2].action, NET_ASK);
        eq_slice(p.reviews[0], S("**.review.test"));
        eq_int(net_policy_write(&again, &p), 0);
        eq_slice(buf_slice(&again), buf_slice(&out));
}

/* Each beginning is copied into memory of its own length, so that a sanitizer sees a read behind its end. */
TEST(a_policy_that_is_cut_or_has_more_behind_it_is_broken)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(MIB);
        struct net_policy p;
        eq_int(net_policy_write(&out, &sample), 0);
        for (size_t n = 0; n < out.n; n++) {
                _free_ char *copy = mem_alloc(MAX(n, (size_t)1));
                memcpy(copy, out.p, n);
                eq_int(net_policy_read(&a, slice_from(copy, n), &p), -EPROTO);
        }
        eq_int(buf_append_char(&out, 0), 0);
        eq_int(net_policy_read(&a, buf_slice(&out), &p), -EPROTO);
}

static void is_refused(const struct net_rule *rule)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(MIB);
        struct net_rule copy = *rule;
        struct net_policy p = { .rules = &copy, .rule_count = 1 };
        eq_int(net_policy_write(&out, &p), 0);
        eq_int(net_policy_read(&a, buf_slice(&out), &p), -EPROTO);
}

TEST(a_rule_that_makes_no_sense_is_broken)
{
        struct net_ports backwards[] = { { 2, 1 } };
        struct slice none[] = { S("") };
        is_refused(&(struct net_rule){ .action = NET_ALLOW }); /* about nothing */
        is_refused(&(struct net_rule){ .action = NET_ACTIONS, .host = S("a") });
        is_refused(&(struct net_rule){ .host = S("A") });
        is_refused(&(struct net_rule){ .host = S("a.") });
        is_refused(&(struct net_rule){ .host = S("**") });
        is_refused(&(struct net_rule){ .host = S("a"), .protocols = 1u << NET_PROTOCOLS });
        is_refused(&(struct net_rule){ .host = S("a"), .ports = backwards, .port_count = 1 });
        is_refused(&(struct net_rule){ .host = S("a"), .methods = none, .method_count = 1 });
        is_refused(&(struct net_rule){ .has_cidr = true, .cidr = { .length = 129 } });
        is_refused(&(struct net_rule){ .has_cidr = true, .cidr = { .address = { 1 }, .length = 7 } });
}

TEST(a_policy_over_a_limit_is_not_written)
{
        static char text[LIMIT_NET_PATTERN_BYTES + 1];
        memset(text, 'a', sizeof(text));
        _buf_ struct buf out = BUF_INIT(4 * MIB);
        struct net_rule rule = { .host = slice_from(text, sizeof(text)) };
        struct net_policy p = { .rules = &rule, .rule_count = 1 };
        eq_int(net_policy_write(&out, &p), -EMSGSIZE);
        eq_int(out.n, 0);

        size_t count = LIMIT_NET_POLICY_BYTES / LIMIT_NET_PATTERN_BYTES;
        _free_ struct slice *many = mem_alloc(count * sizeof(*many));
        for (size_t i = 0; i < count; i++)
                many[i] = slice_from(text, LIMIT_NET_PATTERN_BYTES);
        p = (struct net_policy){ .reviews = many, .review_count = count };
        eq_int(net_policy_write(&out, &p), -EMSGSIZE);
        p.review_count = LIMIT_NET_RULES + 1;
        eq_int(net_policy_write(&out, &p), -EMSGSIZE);
        eq_int(out.n, 0);
}

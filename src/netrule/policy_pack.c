/* policy_pack: writes a policy and reads it back. Every policy has one spelling. */
#include "netrule/policy_pack.h"

#include "base/limits.h"
#include "base/packed.h"
#include "netrule/address.h"
#include "netrule/pattern.h"

#include <errno.h>

#define VERSION 1
#define RULE_LEAST (1 + 4 + 1 + 4 + 4 + 4) /* bytes of a rule with nothing in it */

static void write_rule(struct packer *w, const struct net_rule *rule)
{
        pack_number(w, 1, rule->action);
        pack_text(w, rule->host, LIMIT_NET_PATTERN_BYTES);
        pack_flag(w, rule->has_cidr);
        if (rule->has_cidr) {
                pack_bytes(w, slice_from(rule->cidr.address, sizeof(rule->cidr.address)));
                pack_number(w, 1, rule->cidr.length);
        }
        pack_count(w, rule->port_count, LIMIT_NET_RULE_PORTS);
        for (size_t i = 0; i < rule->port_count; i++) {
                pack_number(w, 2, rule->ports[i].from);
                pack_number(w, 2, rule->ports[i].to);
        }
        pack_number(w, 4, rule->protocols);
        pack_count(w, rule->method_count, LIMIT_NET_RULE_METHODS);
        for (size_t i = 0; i < rule->method_count; i++)
                pack_text(w, rule->methods[i], LIMIT_NET_METHOD_BYTES);
}

int net_policy_write(struct buf *out, const struct net_policy *p)
{
        struct packer w = pack_begin(out);
        pack_number(&w, 1, VERSION);
        pack_flag(&w, p->is_limited);
        pack_flag(&w, p->is_observing);
        pack_flag(&w, p->allows_local);
        pack_flag(&w, p->uses_upstream);
        pack_flag(&w, p->has_socks);
        pack_flag(&w, p->has_questions);
        pack_flag(&w, p->is_strict);
        pack_count(&w, p->rule_count, LIMIT_NET_RULES);
        for (size_t i = 0; i < p->rule_count && !w.error; i++)
                write_rule(&w, &p->rules[i]);
        pack_count(&w, p->review_count, LIMIT_NET_RULES);
        for (size_t i = 0; i < p->review_count && !w.error; i++)
                pack_text(&w, p->reviews[i], LIMIT_NET_PATTERN_BYTES);
        if (!w.error && out->n - w.at > LIMIT_NET_POLICY_BYTES)
                w.error = -EMSGSIZE;
        return pack_end(&w);
}

static void read_pattern(struct unpacker *u, bool may_be_empty, struct slice *ret)
{
        *ret = unpack_text(u, LIMIT_NET_PATTERN_BYTES);
        u->is_broken |= ret->n == 0 ? !may_be_empty : !net_pattern_is_normal(*ret);
}

static void read_rule(struct unpacker *u, struct arena *a, struct net_rule *rule)
{
        *rule = (struct net_rule){ .action = (enum net_action)unpack_number_to(u, 1, NET_ACTIONS - 1) };
        read_pattern(u, true, &rule->host);
        rule->has_cidr = unpack_flag(u);
        if (rule->has_cidr) {
                struct slice bytes = unpack_bytes(u, sizeof(rule->cidr.address));
                if (bytes.n == sizeof(rule->cidr.address))
                        memcpy(rule->cidr.address, bytes.p, bytes.n);
                rule->cidr.length = (uint8_t)unpack_number(u, 1);
                u->is_broken |= !net_cidr_is_valid(&rule->cidr);
        }
        /* A rule about nothing would be one about everything, were it read carelessly. */
        u->is_broken |= rule->host.n == 0 && !rule->has_cidr;
        rule->port_count = unpack_count(u, LIMIT_NET_RULE_PORTS, 4);
        rule->ports = arena_alloc(a, MAX(rule->port_count, (size_t)1) * sizeof(*rule->ports));
        for (size_t i = 0; i < rule->port_count; i++) {
                rule->ports[i].from = (uint16_t)unpack_number(u, 2);
                rule->ports[i].to = (uint16_t)unpack_number(u, 2);
                u->is_broken |= rule->ports[i].from > rule->ports[i].to;
        }
        rule->protocols = (uint32_t)unpack_number_to(u, 4, (1u << NET_PROTOCOLS) - 1);
        rule->method_count = unpack_count(u, LIMIT_NET_RULE_METHODS, 4);
        rule->methods = arena_alloc(a, MAX(rule->method_count, (size_t)1) * sizeof(*rule->methods));
        for (size_t i = 0; i < rule->method_count; i++) {
                rule->methods[i] = unpack_text(u, LIMIT_NET_METHOD_BYTES);
                u->is_broken |= rule->methods[i].n == 0;
        }
}

int net_policy_read(struct arena *a, struct slice in, struct net_policy *ret)
{
        if (in.n > LIMIT_NET_POLICY_BYTES)
                return -EPROTO;
        struct unpacker u = unpack_begin(in);
        struct net_policy p = { 0 };
        u.is_broken |= unpack_number(&u, 1) != VERSION;
        p.is_limited = unpack_flag(&u);
        p.is_observing = unpack_flag(&u);
        p.allows_local = unpack_flag(&u);
        p.uses_upstream = unpack_flag(&u);
        p.has_socks = unpack_flag(&u);
        p.has_questions = unpack_flag(&u);
        p.is_strict = unpack_flag(&u);
        p.rule_count = unpack_count(&u, LIMIT_NET_RULES, RULE_LEAST);
        p.rules = arena_alloc(a, MAX(p.rule_count, (size_t)1) * sizeof(*p.rules));
        for (size_t i = 0; i < p.rule_count && !u.is_broken; i++)
                read_rule(&u, a, &p.rules[i]);
        p.review_count = unpack_count(&u, LIMIT_NET_RULES, 4);
        p.reviews = arena_alloc(a, MAX(p.review_count, (size_t)1) * sizeof(*p.reviews));
        for (size_t i = 0; i < p.review_count && !u.is_broken; i++)
                read_pattern(&u, false, &p.reviews[i]);
        if (unpack_end(&u) < 0)
                return -EPROTO;
        *ret = p;
        return 0;
}

/* netrule: decides about one connection of a managed network. Whatever is not clearly allowed is refused. */
#include "netrule/netrule.h"

/* A target, read once. */
struct subject {
        const struct net_target *t;
        bool is_literal;
        struct net_address address;
        bool has_inner; /* the literal is an IPv6 address that carries an IPv4 address: what denies that denies it too */
        struct net_address inner;
        struct slice inner_host;
        char inner_text[NET_ADDRESS_TEXT_BYTES];
};

static void subject_init(struct subject *s, const struct net_target *t)
{
        *s = (struct subject){ .t = t };
        s->is_literal = net_address_parse(t->host, &s->address);
        if (!s->is_literal || !memchr(t->host.p, ':', t->host.n))
                return;
        struct sockaddr_storage plain;
        (void)net_address_to(&s->address, 0, &plain);
        s->inner = s->address;
        s->has_inner = plain.ss_family == AF_INET || net_address_embedded(&s->address, &s->inner);
        if (s->has_inner) {
                net_address_text(&s->inner, s->inner_text);
                s->inner_host = slice_from_str(s->inner_text);
        }
}

static bool is_localhost(struct slice host)
{
        return slice_eq(host, S("localhost"));
}

/* --- one rule ----------------------------------------------------------------------------------------------------- */

static bool port_fits(const struct net_rule *r, uint16_t port)
{
        for (size_t i = 0; i < r->port_count; i++)
                if (port >= r->ports[i].from && port <= r->ports[i].to)
                        return true;
        return r->port_count == 0;
}

static bool method_fits(const struct net_rule *r, struct slice method)
{
        for (size_t i = 0; i < r->method_count; i++)
                if (slice_eq(method, r->methods[i]))
                        return true;
        return r->method_count == 0;
}

/* Does the rule speak of this way to use a host? What cannot be seen is in nobody's favour: a rule that allows methods does not
 * allow a tunnel, and one that denies methods denies it. */
static bool use_fits(const struct net_rule *r, const struct net_target *t, bool sees_method)
{
        bool is_listed = !r->protocols || (r->protocols & 1u << t->protocol);
        if (t->protocol == NET_DNS) {
                /* A name may be looked up when there is any way to use it; it may not when there is none. */
                if (r->action != NET_DENY)
                        return true;
                return is_listed && r->port_count == 0 && r->method_count == 0;
        }
        if (!is_listed || !port_fits(r, t->port))
                return false;
        if (!sees_method || r->method_count == 0)
                return true;
        return t->protocol == NET_HTTP ? method_fits(r, t->method) : r->action == NET_DENY;
}

/* Does the rule speak of this host, as far as that can be told before a name is resolved? */
static bool host_fits(const struct net_rule *r, const struct subject *s)
{
        bool denies = r->action == NET_DENY;
        if (r->host.n > 0 && !net_pattern_matches(r->host, s->t->host) &&
            !(denies && s->has_inner && net_pattern_matches(r->host, s->inner_host)))
                return false;
        if (!r->has_cidr)
                return r->host.n > 0;
        if (!s->is_literal)
                return !denies && r->host.n > 0;
        return net_cidr_has(&r->cidr, &s->address) ||
               (denies && s->has_inner && net_cidr_has(&r->cidr, &s->inner));
}

/* Returns the first rule with this action that fits; NET_NO_RULE when none does. */
static size_t find_rule(const struct net_policy *p, const struct subject *s, enum net_action action,
                        bool sees_method)
{
        for (size_t i = 0; i < p->rule_count; i++) {
                const struct net_rule *r = &p->rules[i];
                if (r->action == action && use_fits(r, s->t, sees_method) && host_fits(r, s))
                        return i;
        }
        return NET_NO_RULE;
}

static bool is_reviewed(const struct net_policy *p, struct slice host)
{
        for (size_t i = 0; i < p->review_count; i++)
                if (net_pattern_matches(p->reviews[i], host))
                        return true;
        return false;
}

/* --- localhost and literals --------------------------------------------------------------------------------------- */

/* Is there a rule about addresses that has this one, for this host and use? The rule that decided counts when it asks, too. */
static bool has_range_for(const struct net_policy *p, const struct net_target *t, const struct net_address *a,
                          size_t decider)
{
        for (size_t i = 0; i < p->rule_count; i++) {
                const struct net_rule *r = &p->rules[i];
                bool counts = r->action == NET_ALLOW || (r->action == NET_ASK && i == decider);
                if (counts && r->has_cidr && net_cidr_has(&r->cidr, a) && use_fits(r, t, true) &&
                    (r->host.n == 0 || net_pattern_matches(r->host, t->host)))
                        return true;
        }
        return false;
}

/* May the target, which is localhost or a literal that is not public, be reached at all? */
static bool local_is_permitted(const struct net_policy *p, const struct subject *s)
{
        static const struct net_address loopback[] = {
                { .bytes = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } },
                { .bytes = { [15] = 1 } },
        };
        if (s->is_literal) {
                size_t asks = find_rule(p, s, NET_ASK, true);
                if (has_range_for(p, s->t, &s->address, asks))
                        return true;
                if (net_is_metadata(&s->address))
                        return false;
        } else if (has_range_for(p, s->t, &loopback[0], NET_NO_RULE) ||
                   has_range_for(p, s->t, &loopback[1], NET_NO_RULE)) {
                return true;
        }
        if (p->is_strict)
                return false;
        if (p->allows_local)
                return true;
        for (size_t i = 0; i < p->rule_count; i++) {
                const struct net_rule *r = &p->rules[i];
                if (r->action == NET_ALLOW && net_pattern_is_exact(r->host) &&
                    slice_eq(r->host, s->t->host) && use_fits(r, s->t, true))
                        return true;
        }
        return false;
}

/* --- the decision ------------------------------------------------------------------------------------------------- */

static struct net_verdict verdict(enum net_action action, enum net_reason reason, size_t rule)
{
        return (struct net_verdict){
                .action = action, .reason = reason, .source = NET_BASELINE, .rule = rule
        };
}

static bool is_plain_tcp(enum net_protocol protocol)
{
        return protocol == NET_SOCKS5_TCP || protocol == NET_SOCKS5_UDP || protocol == NET_TCP;
}

static void guard(struct net_verdict *v, enum net_reason reason, bool follows_allow)
{
        v->action = NET_DENY;
        v->reason = reason;
        v->source = NET_MODE_GUARD;
        v->is_guard = true;
        v->follows_allow = follows_allow;
}

bool net_judge_mode(const struct net_policy *p, const struct net_target *t, struct net_verdict *v)
{
        static const char *const harmless[] = { "GET", "HEAD", "OPTIONS" };
        if (!p->is_limited || t->protocol == NET_DNS)
                return false;
        if (t->protocol != NET_HTTP)
                guard(v, NET_MITM_REQUIRED, true);
        else if (slice_find(t->method, harmless, ARRAY_LEN(harmless)) == ARRAY_LEN(harmless))
                guard(v, NET_METHOD_NOT_ALLOWED, true);
        else
                return false;
        return true;
}

/* What no rule is about. */
static struct net_verdict missed(const struct net_policy *p, const struct subject *s)
{
        if (find_rule(p, s, NET_ALLOW, false) != NET_NO_RULE)
                return verdict(NET_DENY, NET_METHOD_NOT_ALLOWED, NET_NO_RULE);
        if (p->is_observing)
                return verdict(NET_ALLOW, NET_NOT_ALLOWED, NET_NO_RULE);
        return verdict(p->has_questions ? NET_ASK : NET_DENY, NET_NOT_ALLOWED, NET_NO_RULE);
}

static struct net_verdict judge_host(const struct net_policy *p, const struct subject *s)
{
        size_t rule = find_rule(p, s, NET_DENY, true);
        if (rule != NET_NO_RULE)
                return verdict(NET_DENY, NET_DENIED, rule);
        bool is_local = is_localhost(s->t->host) ||
                        (s->is_literal && (!net_is_public(&s->address) || net_is_metadata(&s->address)));
        if (is_local && !local_is_permitted(p, s))
                return verdict(NET_DENY, NET_NOT_ALLOWED_LOCAL, NET_NO_RULE);

        size_t asks = find_rule(p, s, NET_ASK, true);
        size_t allows = find_rule(p, s, NET_ALLOW, true);
        struct net_verdict v;
        if (asks != NET_NO_RULE || (allows != NET_NO_RULE && is_reviewed(p, s->t->host)))
                v = verdict(p->has_questions ? NET_ASK : NET_DENY, NET_NOT_ALLOWED,
                            asks != NET_NO_RULE ? asks : allows);
        else if (allows != NET_NO_RULE)
                v = verdict(NET_ALLOW, NET_REASON_ALLOW, allows);
        else
                v = missed(p, s);
        v.may_be_local = is_local || (p->allows_local && !p->is_strict);
        return v;
}

struct net_verdict net_judge(const struct net_policy *p, const struct net_target *t)
{
        struct net_verdict v = verdict(NET_DENY, NET_NOT_ALLOWED, NET_NO_RULE);
        if (!net_host_is_normal(t->host))
                return v;
        if (p->is_limited && is_plain_tcp(t->protocol) && t->port != 443) {
                guard(&v, NET_METHOD_NOT_ALLOWED, false);
                return v;
        }
        struct subject s;
        subject_init(&s, t);
        v = judge_host(p, &s);
        if (v.action == NET_ALLOW)
                net_judge_mode(p, t, &v);
        return v;
}

/* --- the address -------------------------------------------------------------------------------------------------- */

static bool is_denied_range(const struct net_policy *p, const struct net_target *t,
                            const struct net_address *a)
{
        struct net_address inner;
        bool has_inner = net_address_embedded(a, &inner);
        for (size_t i = 0; i < p->rule_count; i++) {
                const struct net_rule *r = &p->rules[i];
                if (r->action == NET_DENY && r->has_cidr && use_fits(r, t, true) &&
                    (r->host.n == 0 || net_pattern_matches(r->host, t->host)) &&
                    (net_cidr_has(&r->cidr, a) || (has_inner && net_cidr_has(&r->cidr, &inner))))
                        return true;
        }
        return false;
}

/* Does the verdict hold wherever the host is, and not only at the addresses that the rule names? */
static bool holds_everywhere(const struct net_policy *p, const struct net_verdict *v, const struct subject *s)
{
        if (v->rule >= p->rule_count || !p->rules[v->rule].has_cidr)
                return true;
        for (size_t i = 0; i < p->rule_count; i++) {
                const struct net_rule *r = &p->rules[i];
                if (r->action == NET_ALLOW && !r->has_cidr && use_fits(r, s->t, true) && host_fits(r, s))
                        return true;
        }
        return false;
}

bool net_address_is_allowed(const struct net_policy *p, const struct net_verdict *v,
                            const struct net_target *t, const struct sockaddr_storage *a)
{
        static const struct net_cidr loopback_v4 = { .address = { [10] = 0xff, [11] = 0xff, [12] = 127 },
                                                     .length = 104 };
        static const struct net_cidr loopback_v6 = { .address = { [15] = 1 }, .length = 128 };
        struct net_address address;
        struct subject s;
        if (!net_address_of(a, &address) || !net_host_is_normal(t->host))
                return false;
        subject_init(&s, t);
        if (s.is_literal && memcmp(&s.address, &address, sizeof(address)) != 0)
                return false;
        if (is_localhost(t->host) && !net_cidr_has(&loopback_v4, &address) &&
            !net_cidr_has(&loopback_v6, &address))
                return false;
        if (is_denied_range(p, t, &address))
                return false;
        if (has_range_for(p, t, &address, v->rule))
                return true;
        if (net_is_metadata(&address))
                return false;
        if (!net_is_public(&address))
                return !p->is_strict && v->may_be_local;
        return holds_everywhere(p, v, &s);
}

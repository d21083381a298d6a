/* fuzz_netrule: any bytes as a policy, a host, a pattern and an address. What is read can be written again and is then the same; what
 * is normalized stays as it is; and some decisions may never be made, whatever the policy says. */
#include "base/limits.h"
#include "base/mem.h"
#include "netrule/netrule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pattern(struct arena *a, struct slice text)
{
        for (unsigned action = 0; action < NET_ACTIONS; action++) {
                struct err err = ERR_INIT;
                struct slice normal;
                if (net_policy_check_pattern(a, text, (enum net_action)action, &normal, &err) < 0) {
                        must(err.text[0]);
                        continue;
                }
                must(net_pattern_is_normal(normal));
                must(action != NET_DENY || !slice_eq(normal, S("*")));
                must(!net_pattern_is_exact(normal) || net_pattern_matches(normal, normal));
                must(!slice_eq(normal, S("*")) || net_pattern_matches(normal, S("a.b.c")));
        }
        struct err err = ERR_INIT;
        struct slice normal;
        if (net_policy_check_rule_host(a, text, &normal, &err) == 0)
                must(net_pattern_is_normal(normal));
        if (net_policy_check_unix_socket(text, 0, &err) == 0)
                must(text.p[0] == '/');
}

/* A literal or localhost that the policy does not speak of is never reached, and no verdict leads to another address than the literal. */
static void check_verdict(const struct net_policy *p, const struct net_target *t,
                          const struct net_address *address)
{
        struct net_verdict v = net_judge(p, t);
        must(v.rule == NET_NO_RULE || v.rule < p->rule_count);
        must(v.action != NET_ASK || p->has_questions);
        must(!v.is_guard || (p->is_limited && v.action == NET_DENY));
        if (v.action == NET_DENY)
                return;
        must(net_host_is_normal(t->host));
        struct sockaddr_storage storage;
        (void)net_address_to(address, t->port, &storage);
        if (!net_address_is_allowed(p, &v, t, &storage))
                return;
        struct net_address literal;
        must(!net_address_parse(t->host, &literal) || memcmp(&literal, address, sizeof(literal)) == 0);
        bool has_range = false;
        for (size_t i = 0; i < p->rule_count; i++)
                has_range |= p->rules[i].has_cidr;
        must(has_range || !net_is_metadata(address));
        must(has_range || net_is_public(address) || (!p->is_strict && v.may_be_local));
        must(has_range || net_is_public(address) || p->allows_local || p->rule_count > 0);
}

static void check_policy(struct arena *a, struct slice in, struct slice host,
                         const struct net_address *address)
{
        struct net_policy p;
        if (net_policy_read(a, in, &p) < 0)
                return;
        _buf_ struct buf out = BUF_INIT(LIMIT_NET_POLICY_BYTES);
        must(net_policy_write(&out, &p) == 0);
        must(slice_eq(buf_slice(&out), in));
        struct slice hosts[] = { host,        S("localhost"), S("127.0.0.1"), S("::ffff:169.254.169.254"),
                                 S("a.test"), S("8.8.8.8") };
        static const uint16_t ports[] = { 0, 80, 443 };
        for (unsigned protocol = 0; protocol < NET_PROTOCOLS; protocol++) {
                for (size_t i = 0; i < ARRAY_LEN(hosts) * ARRAY_LEN(ports); i++) {
                        struct net_target t = {
                                .protocol = (enum net_protocol)protocol,
                                .host = hosts[i / ARRAY_LEN(ports)],
                                .port = ports[i % ARRAY_LEN(ports)],
                                .method = i % 2 ? S("GET") : S("POST"),
                        };
                        check_verdict(&p, &t, address);
                }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        /* The copy has the exact size, so that the sanitizer reports a read beyond it. */
        _free_ char *copy = mem_alloc(MAX(size, (size_t)1));
        if (size)
                memcpy(copy, data, size);
        /* The first byte says how long the host is; 16 bytes of an address and the policy follow. */
        size_t host_n = size > 0 ? MIN((size_t)(unsigned char)copy[0], size - 1) : 0;
        struct slice raw = slice_from(copy + (size > 0), host_n);
        struct slice rest = slice_from(raw.p + host_n, size - (size > 0) - host_n);
        struct net_address address = { 0 };
        size_t n = MIN(rest.n, sizeof(address));
        memcpy(address.bytes, rest.p, n);
        rest = slice_from(rest.p + n, rest.n - n);

        struct slice host = raw;
        if (net_host_normalize(&a, raw, &host) == 0)
                must(net_host_is_normal(host) && host.n <= NET_HOST_MAX);
        struct net_cidr c;
        char text[NET_ADDRESS_TEXT_BYTES];
        if (net_cidr_parse(raw, &c) == 0) {
                struct net_cidr again;
                net_cidr_text(&c, text);
                must(net_cidr_parse(slice_from_str(text), &again) == 0 && memcmp(&c, &again, sizeof(c)) == 0);
        }
        net_address_text(&address, text);
        check_pattern(&a, raw);
        check_policy(&a, rest, host, &address);
        return 0;
}

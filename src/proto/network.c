/* network: decodes networkProxy, and makes the policy of a managed network from it. */
#include "proto/network.h"

#include "base/limits.h"
#include "netrule/pattern.h"
#include "netrule/policy_pack.h"
#include "proto/network_internal.h"

#include <errno.h>

#define CALLBACK_ID_BYTES 256

enum domain { DOMAIN_NONE, DOMAIN_ALLOW, DOMAIN_DENY };

/* An entry of a map: `domains` or `unixSockets`. */
struct entry {
        struct slice key;
        size_t value;
};

struct entries {
        struct entry *list;
        size_t count;
};

/* What is decoded of `proxy` before any of it is checked. */
struct proxy {
        bool is_enabled, has_masking;
        struct entries domains, sockets;
        struct slice *reviews;
        size_t review_count;
};

/* --- types -------------------------------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
        const struct slice *x = &((const struct entry *)a)->key, *y = &((const struct entry *)b)->key;
        size_t n = MIN(x->n, y->n);
        int r = n ? memcmp(x->p, y->p, n) : 0;

        return r ? r : (x->n > y->n) - (x->n < y->n);
}

/* Decodes a map of words. Its entries are sorted, because the first bad one in this order is named. Absent and null mean an empty map. */
static void decode_map(struct decoder *d, const char *key, const char *what, const char *const *words,
                       size_t word_count, struct entries *ret)
{
        const struct json *v = decode_peek(d, key);

        if (!v)
                return;
        if (v->type != JSON_OBJECT) {
                struct slice raw = json_raw(d->doc, v);
                if (v->type == JSON_STRING)
                        decode_fail(d, "invalid type: string \"%.*s\", expected %s",
                                    (int)MIN(raw.n, (size_t)60), raw.p, what);
                else
                        decode_fail(d, "invalid type: %s, expected %s", json_type_name(v), what);
                return;
        }
        size_t max = (size_t)(d->doc->tokens + v->end - (v + 1)) / 2;
        ret->list = arena_alloc(d->arena, MAX(max, (size_t)1) * sizeof(*ret->list));
        json_each (it, d->doc, v) {
                struct entry *e = &ret->list[ret->count++];
                e->key = json_string(d->arena, d->doc, it);
                decode_variant_value(d, it + 1, words, word_count, &e->value);
                if (d->has_failed)
                        return;
        }
        qsort(ret->list, ret->count, sizeof(*ret->list), compare_keys);
}

static void decode_proxy(struct decoder *outer, const struct json *value, struct process_network *in,
                         struct proxy *p)
{
        static const char *const modes[] = { "limited", "full" };
        static const char *const domains[] = {
                [DOMAIN_NONE] = "none", [DOMAIN_ALLOW] = "allow", [DOMAIN_DENY] = "deny"
        };
        static const char *const sockets[] = { "allow", "deny" };
        struct net_policy *policy = &in->policy;
        struct decoder d;
        bool ignored;
        size_t mode = 0;

        decode_begin_inside(&d, outer, value, "RemoteNetworkProxyConfig");
        decode_bool(&d, "enabled", &p->is_enabled);
        decode_bool(&d, "enableSocks5", &policy->has_socks);
        decode_bool(&d, "enableSocks5Udp", &ignored);
        decode_bool(&d, "allowUpstreamProxy", &policy->uses_upstream);
        decode_bool(&d, "dangerouslyAllowAllUnixSockets", &in->wants_unix_sockets);
        decode_variant(&d, "mode", modes, ARRAY_LEN(modes), &mode);
        decode_map(&d, "domains", "a map", domains, ARRAY_LEN(domains), &p->domains);
        decode_map(&d, "unixSockets", "struct NetworkUnixSocketPermissions", sockets, ARRAY_LEN(sockets),
                   &p->sockets);
        decode_bool(&d, "allowLocalBinding", &policy->allows_local);
        decode_optional_strings(&d, "reviewDomains", &p->reviews, &p->review_count);
        p->has_masking = network_credentials_decode(&d);
        policy->is_limited = mode == 0;
        decode_end_inside(outer, &d);
}

static void decode_audit(struct decoder *outer, const struct json *value, struct process_network *in)
{
        static const char *const others[] = { "appVersion", "userAccountId", "authMode", "originator",
                                              "userEmail",  "terminalType",  "model",    "slug" };
        struct slice ignored;
        struct decoder d;

        decode_begin_inside(&d, outer, value, "NetworkProxyAuditMetadata");
        decode_optional_string_or_null(&d, "conversationId", &in->conversation_id);
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                decode_optional_string_or_null(&d, others[i], &ignored);
        decode_end_inside(outer, &d);
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

/* Passes on the text of netrule. */
static void fail_config(struct decoder *d, const struct err *why)
{
        decode_fail(d, NET_CONFIG_ERROR "%s", why->text);
}

static void check_sockets(struct decoder *d, const struct entries *sockets)
{
        struct err why = ERR_INIT;
        size_t allowed = 0;

        for (size_t i = 0; i < sockets->count && !d->has_failed; i++)
                if (sockets->list[i].value == 0 &&
                    net_policy_check_unix_socket(sockets->list[i].key, allowed++, &why) < 0)
                        fail_config(d, &why);
}

static void add_rules(struct decoder *d, const struct entries *domains, enum domain which,
                      enum net_action action, struct net_policy *p)
{
        struct err why = ERR_INIT;

        for (size_t i = 0; i < domains->count && !d->has_failed; i++) {
                struct net_rule rule = { .action = action };
                if (domains->list[i].value != which)
                        continue;
                if (net_policy_check_pattern(d->arena, domains->list[i].key, action, &rule.host, &why) < 0)
                        fail_config(d, &why);
                else
                        p->rules[p->rule_count++] = rule;
        }
}

static void add_reviews(struct decoder *d, const struct proxy *in, struct net_policy *p)
{
        struct err why = ERR_INIT;

        p->reviews = arena_alloc(d->arena, MAX(in->review_count, (size_t)1) * sizeof(*p->reviews));
        for (size_t i = 0; i < in->review_count && !d->has_failed; i++)
                if (net_policy_check_pattern(d->arena, in->reviews[i], NET_ASK,
                                             &p->reviews[p->review_count++], &why) < 0)
                        fail_config(d, &why);
}

static void make_policy(struct decoder *d, const struct proxy *in, struct net_policy *p)
{
        if (in->domains.count + in->review_count > LIMIT_NET_RULES) {
                decode_fail(d, "networkProxy has more than %d patterns", LIMIT_NET_RULES);
                return;
        }
        p->rules = arena_alloc(d->arena, MAX(in->domains.count, (size_t)1) * sizeof(*p->rules));
        check_sockets(d, &in->sockets);
        add_rules(d, &in->domains, DOMAIN_DENY, NET_DENY, p);
        add_rules(d, &in->domains, DOMAIN_ALLOW, NET_ALLOW, p);
        add_reviews(d, in, p);
}

/* Packs the policy into the arena, for the program that enforces it. */
static void pack(struct decoder *d, struct process_network *in)
{
        _buf_ struct buf packed = BUF_INIT(LIMIT_NET_POLICY_BYTES);

        if (d->has_failed)
                return;
        if (net_policy_write(&packed, &in->policy) < 0)
                decode_fail(d, "networkProxy is larger than the %d bytes that are enforced",
                            LIMIT_NET_POLICY_BYTES);
        else
                in->packed = slice_from(arena_dup(d->arena, buf_slice(&packed)), packed.n);
}

void process_network_decode(struct decoder *outer, const struct json *value, struct slice process_id,
                            struct process_network *ret)
{
        struct proxy proxy = { 0 };
        struct decoder d;
        const struct json *v;

        decode_begin_inside(&d, outer, value, "RemoteNetworkProxyLaunchConfig");
        if ((v = decode_required(&d, "proxy")))
                decode_proxy(&d, v, ret, &proxy);
        if ((v = decode_peek(&d, "auditMetadata")))
                decode_audit(&d, v, ret);
        decode_optional_string_or_null(&d, "environmentId", &ret->environment_id);
        decode_optional_string_or_null(&d, "executionId", &ret->execution_id);
        decode_optional_u64_or_null(&d, "policyDecisionTimeoutMs", &ret->policy.has_questions,
                                    &ret->question_ms);
        if (ret->policy.has_questions && ret->question_ms == 0)
                decode_fail(&d, "network policy decision callback timeout must be nonzero");
        if (ret->policy.has_questions && (process_id.n == 0 || process_id.n > CALLBACK_ID_BYTES))
                decode_fail(&d, "callback-enabled process ID must be non-empty and at most %d bytes",
                            CALLBACK_ID_BYTES);
        if (!d.has_failed && !proxy.is_enabled)
                decode_fail(&d, NET_CONFIG_ERROR NET_CONFIG_NOT_ENABLED);
        if (!d.has_failed)
                make_policy(&d, &proxy, &ret->policy);
        if (proxy.has_masking)
                decode_fail(&d, "credential masking is not available on this executor");
        pack(&d, ret);
        decode_end_inside(outer, &d);
}

/* --- managedNetwork ----------------------------------------------------------------------------------------------- */

void process_managed_network_check(struct decoder *outer, const struct json *value)
{
        struct slice *ignored;
        struct decoder d;
        uint16_t port;
        bool flag;
        size_t count;

        decode_begin_inside(&d, outer, value, "ManagedNetworkSandboxContext");
        const struct json *ports = decode_optional_array(&d, "loopbackPorts");
        if (ports) {
                json_each (it, d.doc, ports)
                        decode_u16_value(&d, it, &port);
        }
        decode_optional_bool(&d, "allowLocalBinding", &flag);
        decode_optional_strings(&d, "allowUnixSockets", &ignored, &count);
        decode_optional_bool(&d, "dangerouslyAllowAllUnixSockets", &flag);
        decode_end_inside(outer, &d);
}

/* network_policy: which hosts a command may reach, as people say it: hosts with ports on the command line, and network rules. */
#include "cli/network_policy.h"

#include "base/printable.h"

#include <arpa/inet.h>
#include <errno.h>

#define HOST_BYTES_MAX 253

static struct network_entry *add_entry(struct network_policy *p, enum farhand_network_action action,
                                       struct slice host)
{
        p->entries = arena_room(p->arena, p->entries, p->count, &p->room, sizeof(p->entries[0]));
        struct network_entry *e = &p->entries[p->count++];
        *e = (struct network_entry){ .action = action, .host = arena_dup(p->arena, host) };
        return e;
}

/* ---- what people write ---- */

static int refuse(struct network_policy *p, const char *text, const char *why, struct err *err)
{
        return err_set(err, 0, -EINVAL, "`%s` %s", printable_str(p->arena, text), why);
}

static bool read_ports(struct slice text, struct farhand_ports *ret)
{
        struct slice rest = text, from = slice_split(&rest, '-');
        uint64_t first, last;

        if (slice_to_u64(from, UINT16_MAX, &first) < 0 || first == 0)
                return false;
        last = first;
        if (rest.p && (slice_to_u64(rest, UINT16_MAX, &last) < 0 || last < first))
                return false;
        *ret = (struct farhand_ports){ (uint16_t)first, (uint16_t)last };
        return true;
}

/* Splits the host from what stands behind its colon; ret_port->p is NULL when nothing does. */
static bool split(struct slice text, struct slice *ret_host, struct slice *ret_port)
{
        struct slice rest = text;

        *ret_port = (struct slice){ 0 };
        if (text.n > 0 && text.p[0] == '[') {
                rest = slice_from(text.p + 1, text.n - 1);
                *ret_host = slice_split(&rest, ']');
                if (!rest.p || (rest.n > 0 && rest.p[0] != ':'))
                        return false;
                if (rest.n > 0)
                        *ret_port = slice_from(rest.p + 1, rest.n - 1);
                return true;
        }
        *ret_host = slice_split(&rest, ':');
        if (rest.p && memchr(rest.p, ':', rest.n)) /* an IPv6 address as it is */
                *ret_host = text;
        else
                *ret_port = rest;
        return true;
}

static bool has_bad_byte(struct slice host)
{
        for (size_t i = 0; i < host.n; i++)
                if ((unsigned char)host.p[i] <= ' ' || (unsigned char)host.p[i] >= 0x7f)
                        return true;
        return false;
}

int network_policy_add(struct network_policy *p, enum farhand_network_action action, const char *text,
                       struct err *err)
{
        struct slice host, port;
        struct farhand_ports ports;

        if (strchr(text, '/'))
                return refuse(p, text, "is no host: leave the scheme and the path of a URL away", err);
        if (!split(slice_from_str(text), &host, &port) || host.n == 0 || host.n > HOST_BYTES_MAX ||
            has_bad_byte(host))
                return refuse(p, text, "is no host: a name, a pattern like *.example.org, or an address",
                              err);
        if (action == FARHAND_NETWORK_DENY && slice_eq(host, S("*")))
                return refuse(p, text, "cannot be denied: what is not allowed is denied anyway", err);
        if (port.p && !read_ports(port, &ports))
                return refuse(p, text,
                              "has no port behind its colon: a number from 1 to 65535, or two with a -", err);
        struct network_entry *e = add_entry(p, action, host);
        if (port.p) {
                e->ports = arena_new(p->arena, struct farhand_ports);
                *e->ports = ports;
                e->port_count = 1;
        }
        return 0;
}

void network_policy_add_rules(struct network_policy *p, const struct exec_rules *rules)
{
        _arena_ struct arena a = ARENA_INIT;
        size_t count;
        const struct exec_network_rule **list = exec_rules_network_list(rules, &a, &count);

        for (size_t i = 0; i < count; i++) {
                bool is_allow = list[i]->decision == EXEC_ALLOW;
                struct network_entry *e =
                        add_entry(p, is_allow ? FARHAND_NETWORK_ALLOW : FARHAND_NETWORK_DENY, list[i]->host);
                e->port_count = list[i]->port_count;
                e->ports = arena_alloc(p->arena, (e->port_count + 1) * sizeof(*e->ports));
                for (size_t k = 0; k < e->port_count; k++)
                        e->ports[k] = (struct farhand_ports){ list[i]->ports[k].from, list[i]->ports[k].to };
        }
}

/* ---- what the library takes ---- */

static const char *const *make_list(const struct network_policy *p, enum farhand_network_action action)
{
        const char **list = arena_zalloc(p->arena, (p->count + 1) * sizeof(*list));
        size_t n = 0;

        for (size_t i = 0; i < p->count; i++)
                if (p->entries[i].action == action)
                        list[n++] = p->entries[i].host;
        return list;
}

/* Returns the addresses that the host itself names; NULL: it is a name or a pattern. */
static const char *cidr_of(const struct network_policy *p, const char *host)
{
        unsigned char room[sizeof(struct in6_addr)];

        if (inet_pton(AF_INET, host, room) == 1)
                return arena_printf(p->arena, "%s/32", host);
        if (inet_pton(AF_INET6, host, room) == 1)
                return arena_printf(p->arena, "%s/128", host);
        return NULL;
}

static void make_rules(const struct network_policy *p, struct farhand_network *ret)
{
        static const struct farhand_ports all = { 1, UINT16_MAX };
        struct farhand_network_rule *rules = arena_zalloc(p->arena, p->count * sizeof(*rules));

        for (size_t i = 0; i < p->count; i++) {
                const struct network_entry *e = &p->entries[i];
                const char *cidr = cidr_of(p, e->host);
                bool is_localhost = strcmp(e->host, "localhost") == 0;
                rules[i] = (struct farhand_network_rule){
                        .size = sizeof(rules[i]),
                        .action = e->action,
                        .host = cidr ? NULL : e->host,
                        /* Rules reach private addresses only where they name them. */
                        .cidr = is_localhost && e->action == FARHAND_NETWORK_ALLOW ? "127.0.0.0/8" : cidr,
                        .ports = e->port_count > 0 ? e->ports : &all,
                        .port_count = e->port_count > 0 ? e->port_count : 1,
                };
        }
        ret->rules = rules;
        ret->rule_count = p->count;
}

int network_policy_make(const struct network_policy *p, bool has_rules, struct farhand_network *ret,
                        struct err *err)
{
        const struct network_entry *with_port = NULL;

        for (size_t i = 0; i < p->count; i++)
                if (p->entries[i].port_count > 0)
                        with_port = &p->entries[i];
        if (with_port && !has_rules)
                return err_set(err, 0, -EOPNOTSUPP,
                               "this server knows no ports (egressV1): %s can be named with all its ports, "
                               "or not at "
                               "all",
                               printable_str(p->arena, with_port->host));
        if (with_port) {
                make_rules(p, ret);
                return 0;
        }
        ret->allow = make_list(p, FARHAND_NETWORK_ALLOW);
        ret->deny = make_list(p, FARHAND_NETWORK_DENY);
        return 0;
}

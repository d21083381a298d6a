/* exec_network: the hosts, protocols and ports of network rules, and which of them count. */
#include "rules/exec_rules_internal.h"

#include "base/limits.h"
#include "base/printable.h"

#include <errno.h>

const char *exec_network_protocol(struct slice raw)
{
        static const char *const names[] = { "http",         "https",      "https_connect",
                                             "http-connect", "socks5_tcp", "socks5_udp" };
        static const char *const meanings[] = {
                "http", "https", "https", "https", "socks5_tcp", "socks5_udp"
        };
        size_t i = slice_find(raw, names, ARRAY_LEN(names));

        return i < ARRAY_LEN(names) ? meanings[i] : NULL;
}

static bool is_port(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] < '0' || s.p[i] > '9')
                        return false;
        return s.n > 0;
}

static bool has_any(struct slice s, const char *bytes)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] != '\0' && strchr(bytes, s.p[i]))
                        return true;
        return false;
}

static int refuse(struct err *err, const char *why)
{
        return err_set(err, 0, -EINVAL, "invalid rule: network_rule host %s", why);
}

/* Takes the brackets of an IPv6 address and a port off. */
static int strip(struct arena *a, struct slice raw, struct slice *host, struct err *err)
{
        struct slice rest = *host;

        if (rest.n > 0 && rest.p[0] == '[') {
                rest = slice_from(rest.p + 1, rest.n - 1);
                struct slice inside = slice_split(&rest, ']');
                if (!rest.p)
                        return refuse(err, "has an invalid bracketed IPv6 literal");
                if (rest.n > 0 && (rest.p[0] != ':' || !is_port(slice_from(rest.p + 1, rest.n - 1))))
                        return err_set(err, 0, -EINVAL,
                                       "invalid rule: network_rule host contains an unsupported suffix: %s",
                                       printable_text(a, raw));
                *host = inside;
                return 0;
        }
        struct slice name = slice_split(&rest, ':');
        if (rest.p && name.n > 0 &&
            is_port(rest)) /* not for an IPv6 address: its second colon makes `rest` no port */
                *host = name;
        return 0;
}

int exec_network_host(struct arena *a, struct slice raw, struct slice *ret, struct err *err)
{
        struct slice host = slice_trim(raw);

        if (host.n == 0)
                return refuse(err, "cannot be empty");
        if (has_any(host, "/?#"))
                return refuse(err, "must be a hostname or IP literal (without scheme or path)");
        int r = strip(a, raw, &host, err);
        if (r < 0)
                return r;
        while (host.n > 0 && host.p[host.n - 1] == '.')
                host.n--;
        host = slice_trim(host);
        if (host.n == 0)
                return refuse(err, "cannot be empty");
        if (has_any(host, "*"))
                return refuse(err, "must be a specific host; wildcards are not allowed");
        if (has_any(host, " \t\n\v\f\r"))
                return refuse(err, "cannot contain whitespace");
        for (size_t i = 0; i < host.n; i++)
                if (host.p[i] == '\0' || (host.p[i] & 0x80))
                        return refuse(err, "must be ASCII");
        char *text = arena_dup(a, host);
        for (size_t i = 0; i < host.n; i++)
                text[i] = ascii_lower(text[i]);
        *ret = slice_from(text, host.n);
        return 0;
}

/* ---- ports ---- */

static bool read_port(struct slice text, uint16_t *ret)
{
        uint64_t port;

        if (slice_to_u64(text, UINT16_MAX, &port) < 0 || port == 0)
                return false;
        *ret = (uint16_t)port;
        return true;
}

static bool read_ports(const struct starlark_value *value, struct exec_ports *ret)
{
        struct slice rest = value->text, from;

        if (value->type == STARLARK_INT) {
                bool is_port = read_port(rest, &ret->from);
                ret->to = ret->from;
                return is_port;
        }
        if (value->type != STARLARK_STRING)
                return false;
        from = slice_split(&rest, '-');
        return rest.p && read_port(from, &ret->from) && read_port(rest, &ret->to) && ret->from <= ret->to;
}

int exec_network_ports(struct exec_loader *loader, const struct starlark_value *list,
                       struct exec_network_rule *ret, struct err *err)
{
        if (list->count == 0)
                return err_set(err, 0, -EINVAL, "invalid rule: network_rule ports cannot be empty");
        int r = exec_loader_spend(loader, list->count, err);
        if (r < 0)
                return r;
        struct exec_ports *ports = arena_alloc(&loader->rules->arena, list->count * sizeof(*ports));
        for (size_t i = 0; i < list->count; i++)
                if (!read_ports(list->items[i], &ports[i]))
                        return err_set(
                                err, 0, -EINVAL,
                                "invalid rule: network_rule ports are numbers from 1 to 65535, or texts "
                                "like \"8000-8010\" (got %s)",
                                starlark_repr(loader->arena, list->items[i]));
        ret->ports = ports;
        ret->port_count = list->count;
        return 0;
}

/* ---- which rules count ---- */

/* Returns what two rules must share for the later one to take the place of the earlier one. */
static struct slice key_of(struct arena *a, const struct exec_network_rule *rule)
{
        size_t n = rule->host.n + 1 + rule->port_count * sizeof(*rule->ports);
        char *key = arena_zalloc(a, n);

        memcpy(key, rule->host.p, rule->host.n);
        if (rule->port_count > 0)
                memcpy(key + rule->host.n + 1, rule->ports, rule->port_count * sizeof(*rule->ports));
        return slice_from(key, n);
}

const struct exec_network_rule **exec_rules_network_list(const struct exec_rules *rules, struct arena *a,
                                                         size_t *ret_count)
{
        size_t room = rules->network_count, n = 0;
        const struct exec_network_rule **list = arena_alloc(a, (room + 1) * sizeof(*list));
        struct map seen;

        map_init(&seen);
        for (size_t i = room; i-- > 0;) {
                const struct exec_network_rule *rule = &rules->network[i];
                struct slice key = key_of(a, rule);
                if (rule->decision == EXEC_PROMPT || map_find(&seen, key))
                        continue;
                map_put(&seen, key, rules->network + i);
                list[room - ++n] = rule;
        }
        map_release(&seen);
        *ret_count = n;
        return list + room - n;
}

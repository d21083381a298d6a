/* exec_network: the hosts and protocols of network rules. */
#include "rules/exec_rules_internal.h"

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

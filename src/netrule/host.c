/* host: brings a host into the one spelling in which rules are compared with it. */
#include "netrule/host.h"

#include "netrule/address.h"

#include <arpa/inet.h>
#include <errno.h>

static bool is_name(struct slice s)
{
        char before = '.'; /* so that a dot at the beginning is an empty label */
        for (size_t i = 0; i < s.n; i++) {
                char c = ascii_lower(s.p[i]);
                if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                      (c == '.' && before != '.')))
                        return false;
                before = c;
        }
        return s.n > 0 && before != '.';
}

int net_host_normalize(struct arena *a, struct slice host, struct slice *ret)
{
        bool has_brackets = host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
        if (has_brackets || (host.n > 0 && memchr(host.p, ':', host.n))) {
                struct slice inner = has_brackets ? slice_from(host.p + 1, host.n - 2) : host;
                struct net_address address;
                char text[NET_ADDRESS_TEXT_BYTES];
                if (inner.n == 0 || !memchr(inner.p, ':', inner.n) || !net_address_parse(inner, &address) ||
                    !inet_ntop(AF_INET6, address.bytes, text, sizeof(text)))
                        return -EINVAL;
                struct slice s = slice_from_str(text);
                *ret = slice_from(arena_dup(a, s), s.n);
                return 0;
        }
        while (host.n > 0 && host.p[host.n - 1] == '.')
                host.n--;
        if (host.n > NET_HOST_MAX || !is_name(host))
                return -EINVAL;
        char *copy = arena_dup(a, host);
        for (size_t i = 0; i < host.n; i++)
                copy[i] = ascii_lower(copy[i]);
        *ret = slice_from(copy, host.n);
        return 0;
}

bool net_host_is_normal(struct slice host)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice again;
        return net_host_normalize(&a, host, &again) == 0 && slice_eq(again, host);
}

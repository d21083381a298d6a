/* pattern: reads patterns of hosts as the reference server does, and matches them. */
#include "netrule/pattern.h"

#include "base/buf.h"
#include "base/limits.h"
#include "netrule/address.h"
#include "netrule/host.h"

#include <arpa/inet.h>
#include <errno.h>

static bool has_any(struct slice s, const char *characters)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] && strchr(characters, s.p[i]))
                        return true;
        return false;
}

static bool has_twice(struct slice s, char c)
{
        for (size_t i = 0; i + 1 < s.n; i++)
                if (s.p[i] == c && s.p[i + 1] == c)
                        return true;
        return false;
}

/* Returns how long "*." or "**." at the beginning is. */
static size_t prefix_of(struct slice s)
{
        return slice_starts(s, S("**.")) ? 3 : slice_starts(s, S("*.")) ? 2 : 0;
}

/* Takes brackets off, or a port that stands behind the only colon, and dots at the end. */
static struct slice bare(struct slice s)
{
        s = slice_trim(s);
        const char *end = s.n > 0 && s.p[0] == '[' ? memchr(s.p, ']', s.n) : NULL;
        const char *colon = s.n > 0 ? memchr(s.p, ':', s.n) : NULL;
        if (end)
                s = slice_from(s.p + 1, (size_t)(end - s.p) - 1);
        else if (colon && !memchr(colon + 1, ':', s.n - (size_t)(colon - s.p) - 1))
                s.n = (size_t)(colon - s.p);
        while (s.n > 0 && s.p[s.n - 1] == '.')
                s.n--;
        return s;
}

/* Is what stands in brackets, with a port behind it or without, an IPv6 literal or a star? A zone is let through: such a pattern matches nothing, because hosts have
 * none. */
static bool has_good_brackets(struct slice s)
{
        if (!has_any(s, "[]"))
                return true;
        const char *end = s.p[0] == '[' ? memchr(s.p, ']', s.n) : NULL;
        if (!end)
                return false;
        struct slice inner = slice_from(s.p + 1, (size_t)(end - s.p) - 1);
        struct slice behind = slice_from(end + 1, s.n - inner.n - 2);
        bool is_port = behind.n > 0 && behind.p[0] == ':';
        for (size_t i = 0; i < behind.n && !is_port; i++)
                if (behind.p[i] != '.')
                        return false;
        if (has_any(inner, "[") || has_any(behind, "[]"))
                return false;
        struct slice rest = inner;
        struct slice address = slice_split(&rest, '%');
        struct net_address ignored;
        return slice_eq(inner, S("*")) ||
               (address.n > 0 && memchr(address.p, ':', address.n) && net_address_parse(address, &ignored));
}

/* Gives prefix and host, lower case, a literal in its canonical spelling. */
static struct slice joined(struct arena *a, struct slice prefix, struct slice host)
{
        struct net_address address;
        char text[NET_ADDRESS_TEXT_BYTES];
        if (host.n > 0 && memchr(host.p, ':', host.n) && net_address_parse(host, &address) &&
            inet_ntop(AF_INET6, address.bytes, text, sizeof(text)))
                host = slice_from_str(text);
        char *out = arena_alloc(a, prefix.n + host.n + 1);
        memcpy(out, prefix.p, prefix.n);
        for (size_t i = 0; i < host.n; i++)
                out[prefix.n + i] = ascii_lower(host.p[i]);
        out[prefix.n + host.n] = 0;
        return slice_from(out, prefix.n + host.n);
}

static int refuse(struct err *err, const char *what, struct slice pattern)
{
        return err_set(err, 0, -EINVAL, "%s: %.*s", what,
                       (int)MIN(pattern.n, (size_t)LIMIT_NET_PATTERN_BYTES), pattern.p);
}

/* Has it a blank, a control character, or one that means something in other languages of patterns? */
static bool has_foreign(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f)
                        return true;
        return has_any(s, "/\\{}");
}

int net_policy_check_pattern(struct arena *a, struct slice pattern, enum net_action action, struct slice *ret,
                             struct err *err)
{
        struct slice trimmed = slice_trim(pattern);
        if (action == NET_DENY && slice_eq(bare(trimmed), S("*")))
                return err_set(err, 0, -EINVAL,
                               "invalid value for network.denied_domains: %.*s (allowed exact hosts or "
                               "scoped wildcards like "
                               "*.example.com or **.example.com)",
                               (int)MIN(trimmed.n, (size_t)LIMIT_NET_PATTERN_BYTES), trimmed.p);
        if (has_foreign(trimmed) || pattern.n > LIMIT_NET_PATTERN_BYTES)
                return refuse(err, "unsupported domain pattern syntax", pattern);
        size_t prefix_n = prefix_of(trimmed);
        struct slice inner = slice_from(trimmed.p + prefix_n, trimmed.n - prefix_n);
        if (has_twice(inner, '*'))
                return refuse(err, "unsupported repeated wildcard", pattern);
        if (!has_good_brackets(inner))
                return refuse(err, "brackets are only supported for IPv6 literals or [*]", pattern);
        struct slice host = bare(inner);
        if (host.n == 0)
                return err_set(err, 0, -EINVAL, "domain pattern is empty");
        *ret = joined(a, slice_from(trimmed.p, prefix_n), host);
        return 0;
}

int net_policy_check_rule_host(struct arena *a, struct slice pattern, struct slice *ret, struct err *err)
{
        struct slice normal, trimmed = slice_trim(pattern);
        int r = net_policy_check_pattern(a, pattern, NET_ALLOW, &normal, err);
        if (r < 0)
                return r;
        size_t prefix_n = prefix_of(normal);
        struct slice host = slice_from(normal.p + prefix_n, normal.n - prefix_n);
        struct net_address ignored;
        bool is_literal = net_address_parse(host, &ignored), is_known = true;
        for (size_t i = 0; i < host.n && !is_literal; i++) {
                char c = host.p[i];
                is_known &= (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || strchr("-_.*?", c) != NULL;
        }
        /* A colon that is left belongs to an IPv6 literal. */
        bool has_port = has_any(host, ":") ? has_any(trimmed, "[") && trimmed.p[trimmed.n - 1] != ']'
                                           : has_any(trimmed, ":");
        if (!is_known || has_port || (is_literal && prefix_n > 0))
                return refuse(err, "unsupported domain pattern syntax", pattern);
        *ret = normal;
        return 0;
}

int net_policy_check_unix_socket(struct slice path, size_t index, struct err *err)
{
        if (path.n > 0 && path.p[0] == '/' && !slice_has_nul(path))
                return 0;
        static const char special[] = "\"\\\n\r\t", letter[] = "\"\\nrt";
        _buf_ struct buf quoted = BUF_INIT(4 * LIMIT_NET_PATTERN_BYTES);
        int r = 0;
        for (size_t i = 0; i < MIN(path.n, (size_t)LIMIT_NET_PATTERN_BYTES) && r == 0; i++) {
                /* The NUL behind the others is found too. */
                const char *found = memchr(special, path.p[i], sizeof(special));
                if (!found)
                        r = buf_append_char(&quoted, path.p[i]);
                else
                        r = buf_printf(&quoted, "\\%c", *found ? letter[found - special] : '0');
        }
        return err_set(err, 0, -EINVAL,
                       "invalid network.allow_unix_sockets[%zu]: expected a NUL-free absolute path for "
                       "Linux, got \"%s\"",
                       index, quoted.p);
}

bool net_pattern_is_normal(struct slice pattern)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err;
        struct slice again;
        return net_policy_check_pattern(&a, pattern, NET_ALLOW, &again, &err) == 0 &&
               slice_eq(again, pattern);
}

bool net_pattern_is_exact(struct slice pattern)
{
        return !has_any(pattern, "*?");
}

/* Is what follows the last wildcard the end of the text? Of thousands of rules nearly all fail here, after some bytes. */
static bool tail_fits(struct slice pattern, struct slice s)
{
        for (size_t n = 1; n <= pattern.n; n++) {
                char c = pattern.p[pattern.n - n];
                if (c == '*' || c == '?')
                        return true;
                if (n > s.n || c != s.p[s.n - n])
                        return false;
        }
        return true;
}

/* Matches with '*' and '?'. On a mismatch only the last star takes one more: so it is at most pattern times host steps. */
static bool glob(struct slice pattern, struct slice s)
{
        if (!tail_fits(pattern, s))
                return false;
        size_t p = 0, i = 0, star = SIZE_MAX, taken = 0;
        while (i < s.n) {
                if (p < pattern.n && pattern.p[p] == '*') {
                        star = p++;
                        taken = i;
                } else if (p < pattern.n && (pattern.p[p] == '?' || pattern.p[p] == s.p[i])) {
                        p++;
                        i++;
                } else if (star != SIZE_MAX) {
                        p = star + 1;
                        i = ++taken;
                } else {
                        return false;
                }
        }
        while (p < pattern.n && pattern.p[p] == '*')
                p++;
        return p == pattern.n;
}

bool net_pattern_matches(struct slice pattern, struct slice host)
{
        if (host.n == 0)
                return false;
        size_t prefix_n = prefix_of(pattern);
        if (prefix_n == 0)
                return glob(pattern, host);
        /* The label in front of the dot has at least one character. */
        struct slice below = slice_from(pattern.p + prefix_n - 2, pattern.n - (prefix_n - 2));
        if (glob(below, slice_from(host.p + 1, host.n - 1)))
                return true;
        return prefix_n == 3 && glob(slice_from(pattern.p + 3, pattern.n - 3), host);
}

/* weburl: parses and writes http and https URLs as the URL Standard of the WHATWG says.
 *
 * Tabs, line ends and surrounding blanks are removed first; then scheme, authority, path and query are cut off one after the
 * other. That gives the results of the standard's state machine for these two schemes with less code.
 */
#include "wire/weburl.h"

#include "base/url_text.h"
#include "base/utf8.h"

#include <arpa/inet.h>

/* --- characters --------------------------------------------------------------------------------------------------- */

static struct slice percent_decode(struct arena *a, struct slice s)
{
        char *out = arena_alloc(a, s.n + 1);
        return slice_from(out, url_percent_decode(out, s));
}

/* Percent-encodes controls, blanks, what is not ASCII, and `special`. An escape in the text stays as it is. */
static struct slice percent_encode(struct arena *a, struct slice s, const char *special)
{
        static const char digits[] = "0123456789ABCDEF";
        char *out = arena_alloc(a, s.n * 3 + 1);
        size_t n = 0;
        for (size_t i = 0; i < s.n; i++) {
                unsigned char c = (unsigned char)s.p[i];
                if (c > ' ' && c < 0x7f && !strchr(special, c)) {
                        out[n++] = (char)c;
                        continue;
                }
                out[n++] = '%';
                out[n++] = digits[c >> 4];
                out[n++] = digits[c & 15];
        }
        return slice_from(out, n);
}

/* --- host --------------------------------------------------------------------------------------------------------- */

/* Reads one part of an IPv4 address: decimal, octal with a leading 0, or hexadecimal with a leading 0x. Returns false when it is
 * none of these, or has more than 32 bits. */
static bool ipv4_number(struct slice s, uint64_t *ret)
{
        unsigned base = 10;
        if (s.n == 0)
                return false;
        if (s.n >= 2 && s.p[0] == '0' && ascii_lower(s.p[1]) == 'x') {
                base = 16;
                s = url_skip(s, 2);
        } else if (s.n >= 2 && s.p[0] == '0') {
                base = 8;
                s = url_skip(s, 1);
        }
        uint64_t v = 0;
        for (size_t i = 0; i < s.n; i++) {
                int digit = ascii_hex_value(s.p[i]);
                if (digit < 0 || (unsigned)digit >= base)
                        return false;
                v = v * base + (unsigned)digit;
                if (v > UINT32_MAX)
                        return false;
        }
        *ret = v;
        return true;
}

static struct slice without_last_dot(struct slice host)
{
        if (host.n > 0 && host.p[host.n - 1] == '.')
                host.n--;
        return host;
}

/* Returns whether the last label of a host is a number. Such a host is an IPv4 address, valid or not. */
static bool ends_in_number(struct slice host)
{
        host = without_last_dot(host);
        size_t at = host.n;
        while (at > 0 && host.p[at - 1] != '.')
                at--;
        struct slice last = url_skip(host, at);
        if (last.n == 0)
                return false;
        bool is_decimal = true;
        for (size_t i = 0; i < last.n; i++)
                is_decimal &= url_is_digit(last.p[i]);
        uint64_t v;
        return is_decimal || (last.n >= 2 && ascii_lower(last.p[1]) == 'x' && ipv4_number(last, &v));
}

static enum weburl_result parse_ipv4(struct arena *a, struct slice host, struct slice *ret)
{
        uint64_t part[4], address = 0;
        size_t count = 0;
        struct slice rest = without_last_dot(host);
        while (rest.p) {
                struct slice label = slice_split(&rest, '.');
                if (count == ARRAY_LEN(part) || !ipv4_number(label, &part[count++]))
                        return WEBURL_BAD_IPV4;
        }
        for (size_t i = 0; i + 1 < count; i++) {
                if (part[i] > 255)
                        return WEBURL_BAD_IPV4;
                address |= part[i] << (24 - 8 * i);
        }
        /* The last part stands for all bytes that are left: 127.1 is 127.0.0.1. */
        if (part[count - 1] >= 1ULL << (8 * (5 - count)))
                return WEBURL_BAD_IPV4;
        address |= part[count - 1];
        *ret = slice_from_str(arena_printf(a, "%u.%u.%u.%u", (unsigned)(address >> 24 & 255),
                                           (unsigned)(address >> 16 & 255), (unsigned)(address >> 8 & 255),
                                           (unsigned)(address & 255)));
        return WEBURL_OK;
}

static enum weburl_result parse_ipv6(struct arena *a, struct slice inside, struct slice *ret)
{
        struct in6_addr address;
        char text[INET6_ADDRSTRLEN];
        const char *copy = arena_dup(a, inside);
        if (slice_has_nul(inside) || inet_pton(AF_INET6, copy, &address) != 1 ||
            !inet_ntop(AF_INET6, &address, text, sizeof(text)))
                return WEBURL_BAD_IPV6;
        *ret = slice_from_str(arena_printf(a, "[%s]", text));
        return WEBURL_OK;
}

static enum weburl_result parse_host(struct arena *a, struct slice host, struct slice *ret)
{
        if (host.n == 0)
                return WEBURL_NO_HOST;
        if (host.p[0] == '[') {
                if (host.n < 2 || host.p[host.n - 1] != ']')
                        return WEBURL_BAD_IPV6;
                return parse_ipv6(a, slice_from(host.p + 1, host.n - 2), ret);
        }
        struct slice name = percent_decode(a, host);
        char *lower = arena_dup(a, name);
        for (size_t i = 0; i < name.n; i++) {
                unsigned char c = (unsigned char)lower[i];
                if (c <= ' ' || c == 0x7f || strchr("#%/:<>?@[\\]^|", c))
                        return WEBURL_BAD_DOMAIN;
                lower[i] = ascii_lower(lower[i]);
        }
        name = slice_from(lower, name.n);
        if (!utf8_is_valid(name))
                return WEBURL_BAD_DOMAIN;
        if (ends_in_number(name))
                return parse_ipv4(a, name, ret);
        *ret = name;
        return WEBURL_OK;
}

/* --- authority ---------------------------------------------------------------------------------------------------- */

static enum weburl_result parse_port(struct slice digits, bool is_https, uint16_t *ret)
{
        unsigned port = 0;
        for (size_t i = 0; i < digits.n; i++) {
                if (!url_is_digit(digits.p[i]))
                        return WEBURL_BAD_PORT;
                port = port * 10 + (unsigned)(digits.p[i] - '0');
                if (port > UINT16_MAX)
                        return WEBURL_BAD_PORT;
        }
        if (digits.n > 0 && port == 0)
                return WEBURL_BAD_PORT; /* no server listens on port 0, and 0 means "none" in struct weburl */
        *ret = port == (is_https ? 443 : 80) ? 0 : (uint16_t)port;
        return WEBURL_OK;
}

static void parse_user(struct arena *a, struct slice info, struct weburl *u)
{
        struct slice rest = info, user = slice_split(&rest, ':');
        if (user.n == 0 && rest.n == 0)
                return;
        u->user = percent_decode(a, user);
        u->password = rest.p ? percent_decode(a, rest) : S("");
}

/* Takes user, host and port off the front of *rest. */
static enum weburl_result parse_authority(struct arena *a, struct slice *rest, struct weburl *u)
{
        size_t n = 0, at = SIZE_MAX;
        for (; n < rest->n && !url_is_slash(rest->p[n]) && rest->p[n] != '?' && rest->p[n] != '#'; n++)
                if (rest->p[n] == '@')
                        at = n;
        struct slice host = slice_from(rest->p, n);
        *rest = url_skip(*rest, n);
        if (at != SIZE_MAX) {
                parse_user(a, slice_from(host.p, at), u);
                host = url_skip(host, at + 1);
        }
        size_t colon = 0;
        for (bool in_brackets = false; colon < host.n; colon++) {
                if (host.p[colon] == '[' || host.p[colon] == ']')
                        in_brackets = host.p[colon] == '[';
                else if (host.p[colon] == ':' && !in_brackets)
                        break;
        }
        struct slice port = colon < host.n ? url_skip(host, colon + 1) : S("");
        enum weburl_result r = parse_host(a, slice_from(host.p, colon), &u->host);
        return r == WEBURL_OK ? parse_port(port, u->is_https, &u->port) : r;
}

/* --- path and query ----------------------------------------------------------------------------------------------- */

/* Writes `path` behind the `n` bytes of `out` that are there ("" or "/a/b", no slash at the end). Returns the length. */
static size_t append_path(char *out, size_t n, struct slice path)
{
        for (bool is_last = false; !is_last;) {
                size_t len = 0;
                while (len < path.n && !url_is_slash(path.p[len]))
                        len++;
                is_last = len == path.n;
                struct slice segment = slice_from(path.p, len);
                path = url_skip(path, is_last ? len : len + 1);
                unsigned count = url_count_dots(segment);
                if (count == 2)
                        while (n > 0 && out[--n] != '/')
                                continue;
                if (count == 0 || is_last)
                        out[n++] = '/';
                if (count == 0 && len > 0) {
                        memcpy(out + n, segment.p, len);
                        n += len;
                }
        }
        return n;
}

/* Reads path and query. `rest` is what follows the authority; with a `base` it is a relative reference. */
static void parse_path(struct arena *a, struct slice rest, const struct weburl *base, struct weburl *u)
{
        struct slice text = slice_split(&rest, '#');
        struct slice query = text, path = slice_split(&query, '?');
        if (query.p)
                u->query = percent_encode(a, query, "\"#<>'");
        if (base && path.n == 0) {
                u->path = base->path;
                if (!query.p)
                        u->query = base->query;
                return;
        }
        struct slice before = S("");
        if (path.n > 0 && url_is_slash(path.p[0]))
                path = url_skip(path, 1);
        else if (base)
                before = base->path;
        while (before.n > 0 && before.p[before.n - 1] != '/')
                before.n--;
        if (before.n > 0)
                before.n--;
        struct slice encoded = percent_encode(a, path, "\"<>`{}");
        char *out = arena_alloc(a, before.n + encoded.n + 2);
        if (before.n > 0)
                memcpy(out, before.p, before.n);
        u->path = slice_from(out, append_path(out, before.n, encoded));
}

/* --- whole URLs --------------------------------------------------------------------------------------------------- */

static enum weburl_result parse_absolute(struct arena *a, struct slice rest, struct weburl *u)
{
        while (rest.n > 0 && url_is_slash(rest.p[0]))
                rest = url_skip(rest, 1);
        enum weburl_result r = parse_authority(a, &rest, u);
        if (r == WEBURL_OK)
                parse_path(a, rest, NULL, u);
        return r;
}

static enum weburl_result parse_relative(struct arena *a, struct slice rest, const struct weburl *base,
                                         struct weburl *u)
{
        u->is_https = base->is_https;
        if (rest.n >= 2 && url_is_slash(rest.p[0]) && url_is_slash(rest.p[1]))
                return parse_absolute(a, rest, u);
        u->host = base->host;
        u->port = base->port;
        parse_path(a, rest, base, u);
        return WEBURL_OK;
}

enum weburl_result weburl_parse(struct arena *a, struct slice text, const struct weburl *base,
                                struct weburl *ret, struct slice *ret_scheme)
{
        struct weburl u = { 0 };
        struct slice rest = url_clean(a, text);
        size_t n = url_scheme_length(rest);
        enum weburl_result r;
        if (n == 0) {
                r = base ? parse_relative(a, rest, base, &u) : WEBURL_RELATIVE;
        } else {
                struct slice scheme = slice_from(rest.p, n);
                rest = url_skip(rest, n + 1);
                u.is_https = slice_eq_nocase(scheme, S("https"));
                bool is_authority = rest.n >= 2 && url_is_slash(rest.p[0]) && url_is_slash(rest.p[1]);
                if (!u.is_https && !slice_eq_nocase(scheme, S("http"))) {
                        if (ret_scheme)
                                *ret_scheme = url_lower(a, scheme);
                        return WEBURL_SCHEME;
                }
                if (base && base->is_https == u.is_https && !is_authority)
                        r = parse_relative(a, rest, base, &u);
                else
                        r = parse_absolute(a, rest, &u);
        }
        if (r == WEBURL_OK)
                *ret = u;
        return r;
}

const char *weburl_result_text(enum weburl_result r)
{
        switch (r) {
        case WEBURL_OK:
                return "no error";
        case WEBURL_RELATIVE:
                return "relative URL without a base";
        case WEBURL_SCHEME:
                return "unsupported URL scheme";
        case WEBURL_NO_HOST:
                return "empty host";
        case WEBURL_BAD_PORT:
                return "invalid port number";
        case WEBURL_BAD_IPV4:
                return "invalid IPv4 address";
        case WEBURL_BAD_IPV6:
                return "invalid IPv6 address";
        case WEBURL_BAD_DOMAIN:
                return "invalid international domain name";
        }
        return "unknown error";
}

static struct slice write_text(struct arena *a, const struct weburl *u, struct slice path, struct slice query)
{
        char port[8] = "";
        if (u->port)
                (void)snprintf(port, sizeof(port), ":%u", u->port);
        return slice_from_str(arena_printf(a, "%s://%.*s%s%.*s%s%.*s", u->is_https ? "https" : "http",
                                           SLICE(u->host), port, SLICE(path), query.p ? "?" : "",
                                           query.p ? (int)query.n : 0, query.p ? query.p : ""));
}

struct slice weburl_text(struct arena *a, const struct weburl *u)
{
        return write_text(a, u, u->path, u->query);
}

struct slice weburl_origin_text(struct arena *a, const struct weburl *u)
{
        return write_text(a, u, S("/"), (struct slice){ 0 });
}

bool weburl_same_origin(const struct weburl *a, const struct weburl *b)
{
        return a->is_https == b->is_https && a->port == b->port && slice_eq(a->host, b->host);
}

/* uri: see uri.h.
 *
 * A file: URI is read as web browsers do (the WHATWG URL standard), since that is what the clients of the
 * protocol were written against. What may surprise:
 *  - tabs and line ends vanish wherever they are, blanks and control characters at both ends;
 *  - an unescaped backslash is a slash; `%5C` is a backslash;
 *  - a percent sign that two hex digits do not follow stands for itself;
 *  - `.` and `..` go twice: first between the slashes of the text (an empty part counts as one there, so
 *    `a//../b` is `a/b`), then, after percent-decoding, between those of the path (`x%2F..%2Fb` is `b`);
 *  - `C|` is a drive letter only where no `//` came before it: `file:///C|/x` is the path `/C|/x`.
 * International host names are not mapped: one that is not ASCII is another host.
 */
#include "base/uri.h"

#include "base/base64.h"
#include "base/utf8.h"

#include <arpa/inet.h>
#include <errno.h>

#define OPAQUE_PREFIX "/%00/bad/path/"

struct parts {
        struct slice host; /* as it stands, still percent-encoded */
        struct slice path; /* raw; may begin with a slash, or not */
        bool has_authority;
        bool has_query, has_fragment;
};

static bool is_alpha(char c)
{
        return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static bool is_slash(char c)
{
        return c == '/' || c == '\\';
}

static int hex_value(char c)
{
        if (is_digit(c))
                return c - '0';
        c = ascii_lower(c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static struct slice skip(struct slice s, size_t n)
{
        return slice_from(s.p + n, s.n - n);
}

/* The part up to the first slash of either kind. */
static struct slice first_segment(struct slice s)
{
        size_t n = 0;

        while (n < s.n && !is_slash(s.p[n]))
                n++;
        return slice_from(s.p, n);
}

static bool is_drive(struct slice s)
{
        return s.n == 2 && is_alpha(s.p[0]) && (s.p[1] == ':' || s.p[1] == '|');
}

/* `C:` or `C%3A`: what the first segment of a URI may not be on this platform. */
static bool is_colon_drive(struct slice s)
{
        if (s.n == 0 || !is_alpha(s.p[0]))
                return false;
        return slice_eq(skip(s, 1), S(":")) || slice_eq_nocase(skip(s, 1), S("%3a"));
}

/* 1 for `.`, 2 for `..`, in any mixture with `%2e`; else 0. */
static int count_dots(struct slice s)
{
        int dots = 0;

        while (s.n > 0) {
                size_t n = s.p[0] == '.'                                               ? 1
                           : s.n >= 3 && slice_eq_nocase(slice_from(s.p, 3), S("%2e")) ? 3
                                                                                       : 0;
                if (n == 0 || dots == 2)
                        return 0;
                dots++;
                s = skip(s, n);
        }
        return dots;
}

/* A copy without tabs and line ends anywhere and without blanks and control characters at the ends. */
static struct slice clean(struct arena *a, struct slice text)
{
        while (text.n > 0 && (uint8_t)text.p[0] <= ' ')
                text = skip(text, 1);
        while (text.n > 0 && (uint8_t)text.p[text.n - 1] <= ' ')
                text.n--;

        char *copy = arena_alloc(a, text.n + 1);
        size_t n = 0;
        for (size_t i = 0; i < text.n; i++)
                if (text.p[i] != '\t' && text.p[i] != '\n' && text.p[i] != '\r')
                        copy[n++] = text.p[i];
        return slice_from(copy, n);
}

/* Length of the scheme in front of the first colon; 0 when there is none. */
static size_t scheme_length(struct slice s)
{
        size_t n = 0;

        if (s.n == 0 || !is_alpha(s.p[0]))
                return 0;
        while (n < s.n && (is_alpha(s.p[n]) || is_digit(s.p[n]) || strchr("+-.", s.p[n] ? s.p[n] : '/')))
                n++;
        return n < s.n && s.p[n] == ':' ? n : 0;
}

static struct parts split(struct slice s)
{
        struct parts parts = { 0 };
        const char *hash = s.n > 0 ? memchr(s.p, '#', s.n) : NULL;

        if (hash) {
                parts.has_fragment = true;
                s.n = (size_t)(hash - s.p);
        }
        const char *mark = s.n > 0 ? memchr(s.p, '?', s.n) : NULL;
        if (mark) {
                parts.has_query = true;
                s.n = (size_t)(mark - s.p);
        }

        if (s.n >= 2 && is_slash(s.p[0]) && is_slash(s.p[1])) {
                struct slice authority = first_segment(skip(s, 2));
                if (is_drive(authority)) { /* `file://C:/x` is meant as a path */
                        parts.path = skip(s, 1);
                        return parts;
                }
                parts.has_authority = true;
                parts.host = authority;
                s = skip(s, 2 + authority.n);
        }
        parts.path = s;
        return parts;
}

/* Percent-decodes into `out`, which has room for s.n bytes; returns the number written. */
static size_t percent_decode(char *out, struct slice s)
{
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++) {
                int high = s.p[i] == '%' && s.n - i > 2 ? hex_value(s.p[i + 1]) : -1;
                int low = high >= 0 ? hex_value(s.p[i + 2]) : -1;
                if (low < 0) {
                        out[n++] = s.p[i];
                        continue;
                }
                out[n++] = (char)(high << 4 | low);
                i += 2;
        }
        return n;
}

/* URI_OK when it is this host, URI_FOREIGN when another; else what is wrong with it. */
static enum uri_result check_host(struct arena *a, struct slice raw)
{
        if (raw.n == 0)
                return URI_OK;
        if (raw.p[0] == '[' && raw.p[raw.n - 1] == ']' && raw.n > 2) {
                struct in6_addr ignored;
                char *address = arena_dup(a, slice_from(raw.p + 1, raw.n - 2));
                bool is_address = !slice_has_nul(raw) && inet_pton(AF_INET6, address, &ignored) == 1;
                return is_address ? URI_FOREIGN : URI_MALFORMED;
        }
        if (memchr(raw.p, '@', raw.n))
                return URI_CREDENTIALS;

        char *host = arena_alloc(a, raw.n + 1);
        size_t n = percent_decode(host, raw);
        for (size_t i = 0; i < n; i++) {
                if (raw.n == n && host[i] == ':')
                        return URI_PORT;
                if ((uint8_t)host[i] <= ' ' || host[i] == 0x7f || strchr("#%/:<>?@[\\]^|", host[i]))
                        return URI_MALFORMED;
        }
        if (!utf8_is_valid(slice_from(host, n)))
                return URI_MALFORMED;
        return slice_eq_nocase(slice_from(host, n), S("localhost")) ? URI_OK : URI_FOREIGN;
}

/* Takes the last segment off out[0..n); a drive letter that stands first stays. */
static size_t pop_segment(const char *out, size_t n)
{
        if (n == 3 && is_colon_drive(slice_from(out + 1, 2)))
                return n;
        while (n > 0 && out[n - 1] != '/')
                n--;
        return n > 0 ? n - 1 : 0;
}

/* The first of the two rounds: raw segments. The result begins with exactly one slash. */
static struct slice normalise_raw(struct arena *a, struct slice raw)
{
        char *out = arena_alloc(a, raw.n + 2);
        size_t n = 0;

        if (raw.n > 0 && is_slash(raw.p[0]))
                raw = skip(raw, 1);
        for (bool more = true; more;) {
                struct slice segment = first_segment(raw);
                int dots = count_dots(segment);

                more = segment.n < raw.n;
                raw = skip(raw, segment.n + more);
                if (dots == 2)
                        n = pop_segment(out, n);
                if (dots == 0 || !more) {
                        out[n++] = '/';
                        memcpy(out + n, segment.p, dots == 0 ? segment.n : 0);
                        n += dots == 0 ? segment.n : 0;
                }
        }

        size_t lead = 0;
        while (lead + 1 < n && out[lead + 1] == '/')
                lead++;
        return slice_from(out + lead, n - lead);
}

/* The second round, on the decoded path, in place: no empty segments, no dots, no trailing slash. */
static size_t normalise_path(char *path, size_t size)
{
        size_t n = 0, i = 0;

        while (i < size) {
                size_t start = ++i; /* path[i - 1] is a slash */
                while (i < size && path[i] != '/')
                        i++;
                struct slice segment = slice_from(path + start, i - start);

                if (segment.n == 0 || slice_eq(segment, S(".")))
                        continue;
                if (slice_eq(segment, S(".."))) {
                        while (n > 0 && path[--n] != '/')
                                ;
                        continue;
                }
                path[n++] = '/';
                memmove(path + n, segment.p, segment.n);
                n += segment.n;
        }
        if (n == 0)
                path[n++] = '/';
        return n;
}

/* Only a path whose first segment would be taken for a drive letter has no URI of its own. */
static bool needs_opaque(struct slice path)
{
        return path.n >= 3 && is_alpha(path.p[1]) && path.p[2] == ':' && (path.n == 3 || path.p[3] == '/');
}

static enum uri_result opaque_to_path(struct arena *a, struct slice encoded, struct slice *ret_path)
{
        char *path = arena_alloc(a, encoded.n + 1);
        ssize_t n = base64url_decode(path, encoded.p, encoded.n);

        if (n <= 0)
                return URI_MALFORMED;

        struct slice s = slice_from(path, (size_t)n);
        if (slice_has_nul(s))
                return URI_NUL;
        if (path[0] != '/' || !needs_opaque(s) || normalise_path(path, s.n) != s.n)
                return URI_FOREIGN;
        path[s.n] = '\0';
        *ret_path = s;
        return URI_OK;
}

static enum uri_result file_uri_to_path(struct arena *a, struct slice rest, struct slice *ret_path)
{
        struct parts parts = split(rest);
        enum uri_result host = check_host(a, parts.host);

        if (host != URI_OK && host != URI_FOREIGN)
                return host;
        if (parts.has_query)
                return URI_QUERY;
        if (parts.has_fragment)
                return URI_FRAGMENT;

        struct slice raw = normalise_raw(a, parts.path);
        if (host == URI_OK && slice_starts(raw, S(OPAQUE_PREFIX)))
                return opaque_to_path(a, skip(raw, sizeof(OPAQUE_PREFIX) - 1), ret_path);

        char *path = arena_alloc(a, raw.n + 1);
        size_t n = percent_decode(path, raw);
        if (slice_has_nul(slice_from(path, n)))
                return URI_NUL;
        if (host == URI_FOREIGN || is_colon_drive(first_segment(skip(raw, 1))))
                return URI_FOREIGN;
        struct slice unslashed =
                parts.path.n > 0 && is_slash(parts.path.p[0]) ? skip(parts.path, 1) : parts.path;
        if (!parts.has_authority && is_drive(first_segment(unslashed)))
                return URI_FOREIGN;

        n = normalise_path(path, n);
        path[n] = '\0';
        *ret_path = slice_from(path, n);
        return URI_OK;
}

enum uri_result uri_to_path(struct arena *a, struct slice text, struct slice *ret_path,
                            struct slice *ret_detail)
{
        if (text.n > 0 && text.p[0] == '/') {
                if (slice_has_nul(text))
                        return URI_NUL;
                char *path = arena_dup(a, text);
                size_t n = normalise_path(path, text.n);
                path[n] = 0;
                *ret_path = slice_from(path, n);
                return URI_OK;
        }

        struct slice s = clean(a, text);
        size_t n = scheme_length(s);
        if (n == 0)
                return URI_NOT_ABSOLUTE;

        struct slice scheme = slice_from(s.p, n);
        if (slice_eq_nocase(scheme, S("file")))
                return file_uri_to_path(a, skip(s, n + 1), ret_path);

        if (ret_detail) {
                char *lower = arena_dup(a, scheme);
                for (size_t i = 0; i < n; i++)
                        lower[i] = ascii_lower(lower[i]);
                *ret_detail = slice_from(lower, n);
        }
        return URI_BAD_SCHEME;
}

/* Printable ASCII but for these, byte for byte as other servers of the protocol write it. */
static bool stays_plain(char c)
{
        static const bool is_escaped[128] = {
                ['"'] = true, ['#'] = true, ['%'] = true,  ['<'] = true, ['>'] = true,
                ['?'] = true, ['`'] = true, ['\\'] = true, ['{'] = true, ['}'] = true,
        };
        return c > ' ' && c < 0x7f && !is_escaped[(unsigned char)c];
}

static int append_opaque(struct buf *out, struct slice path)
{
        char *room;
        int r = buf_append(out, S("file://" OPAQUE_PREFIX));

        if (r < 0)
                return r;
        r = buf_reserve(out, base64_encoded_size(path.n), &room);
        if (r < 0)
                return r;
        buf_commit(out, base64url_encode(room, path.p, path.n));
        return 0;
}

static int append_plain(struct buf *out, struct slice path)
{
        static const char digits[] = "0123456789ABCDEF";
        int r = buf_append(out, S("file://"));

        for (size_t i = 0; r >= 0 && i < path.n;) {
                size_t run = i;
                while (run < path.n && stays_plain(path.p[run]))
                        run++;
                r = buf_append(out, slice_from(path.p + i, run - i));
                i = run;
                if (r < 0 || i == path.n)
                        break;

                uint8_t c = (uint8_t)path.p[i++];
                char escape[3] = { '%', digits[c >> 4], digits[c & 15] };
                r = buf_append(out, slice_from(escape, sizeof(escape)));
        }
        return r < 0 ? r : 0;
}

int uri_from_path(struct buf *out, struct slice path)
{
        if (path.n == 0 || path.p[0] != '/' || slice_has_nul(path))
                return -EINVAL;

        size_t before = out->n;
        int r = needs_opaque(path) ? append_opaque(out, path) : append_plain(out, path);
        if (r < 0)
                buf_truncate(out, before); /* a half URI names something else */
        return r;
}

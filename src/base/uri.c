/* uri: converts file: URIs and native spellings to paths, and paths to file: URIs.
 *
 * A file: URI is read as web browsers read it (the WHATWG URL standard), because the clients of the protocol were
 * written for that. What may surprise:
 *  - tabs and line ends vanish wherever they are, blanks and control characters at both ends;
 *  - an unescaped backslash is a slash; `%5C` is a backslash;
 *  - a percent sign that two hex digits do not follow stands for itself;
 *  - `.` and `..` are removed from the text, where an empty part between two slashes counts as a name: `a//../b` is `a/b`;
 *  - `C|` is a drive letter only where no `//` came before it: `file:///C|/x` is the path `/C|/x`.
 * International host names are not mapped: one that is not ASCII is another host.
 */
#include "base/uri.h"

#include "base/base64.h"
#include "base/url_text.h"
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

/* Returns the part up to the first slash or backslash. */
static struct slice first_segment(struct slice s)
{
        size_t n = 0;

        while (n < s.n && !url_is_slash(s.p[n]))
                n++;
        return slice_from(s.p, n);
}

static bool is_drive(struct slice s)
{
        return s.n == 2 && url_is_alpha(s.p[0]) && (s.p[1] == ':' || s.p[1] == '|');
}

/* Returns whether a segment is `C:` or `C%3A`, which the first segment of a URI may not be on this platform. */
static bool is_colon_drive(struct slice s)
{
        if (s.n == 0 || !url_is_alpha(s.p[0]))
                return false;
        return slice_eq(url_skip(s, 1), S(":")) || slice_eq_nocase(url_skip(s, 1), S("%3a"));
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

        if (s.n >= 2 && url_is_slash(s.p[0]) && url_is_slash(s.p[1])) {
                struct slice authority = first_segment(url_skip(s, 2));
                if (is_drive(authority)) { /* `file://C:/x` is meant as a path */
                        parts.path = url_skip(s, 1);
                        return parts;
                }
                parts.has_authority = true;
                parts.host = authority;
                s = url_skip(s, 2 + authority.n);
        }
        parts.path = s;
        return parts;
}

/* Returns URI_OK for this host, URI_FOREIGN for another host, or what is wrong with the text. */
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
        size_t n = url_percent_decode(host, raw);
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

/* Returns the length of out[0..n) without its last segment; a drive letter that is the first segment stays. */
static size_t pop_segment(const char *out, size_t n)
{
        if (n == 3 && is_colon_drive(slice_from(out + 1, 2)))
                return n;
        while (n > 0 && out[n - 1] != '/')
                n--;
        return n > 0 ? n - 1 : 0;
}

/* Normalises the raw segments, before percent-decoding: the first of two rounds. The result begins with exactly one slash. */
static struct slice normalise_raw(struct arena *a, struct slice raw)
{
        char *out = arena_alloc(a, raw.n + 2);
        size_t n = 0;

        if (raw.n > 0 && url_is_slash(raw.p[0]))
                raw = url_skip(raw, 1);
        for (bool more = true; more;) {
                struct slice segment = first_segment(raw);
                unsigned dots = url_count_dots(segment);

                more = segment.n < raw.n;
                raw = url_skip(raw, segment.n + more);
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

/* Normalises the decoded path in place, the second round: removes empty segments, `.`, `..` and a trailing slash. Returns the new
 * length. */
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
        return path.n >= 3 && url_is_alpha(path.p[1]) && path.p[2] == ':' &&
               (path.n == 3 || path.p[3] == '/');
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

static bool has_escaped_slash(struct slice s)
{
        for (; s.n >= 3; s = url_skip(s, 1))
                if (s.p[0] == '%' && slice_eq_nocase(slice_from(s.p, 3), S("%2f")))
                        return true;
        return false;
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
        if (has_escaped_slash(parts.path))
                return URI_SLASH;

        struct slice raw = normalise_raw(a, parts.path);
        if (host == URI_OK && slice_starts(raw, S(OPAQUE_PREFIX)))
                return opaque_to_path(a, url_skip(raw, sizeof(OPAQUE_PREFIX) - 1), ret_path);

        char *path = arena_alloc(a, raw.n + 1);
        size_t n = url_percent_decode(path, raw);
        if (slice_has_nul(slice_from(path, n)))
                return URI_NUL;
        if (host == URI_FOREIGN || is_colon_drive(first_segment(url_skip(raw, 1))))
                return URI_FOREIGN;
        struct slice unslashed =
                parts.path.n > 0 && url_is_slash(parts.path.p[0]) ? url_skip(parts.path, 1) : parts.path;
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

        struct slice s = url_clean(a, text);
        size_t n = url_scheme_length(s);
        if (n == 0)
                return URI_NOT_ABSOLUTE;

        struct slice scheme = slice_from(s.p, n);
        if (slice_eq_nocase(scheme, S("file")))
                return file_uri_to_path(a, url_skip(s, n + 1), ret_path);

        if (ret_detail)
                *ret_detail = url_lower(a, scheme);
        return URI_BAD_SCHEME;
}

/* Returns whether a character is written without an escape: printable ASCII except for a few, so that a URI is the same, byte for
 * byte, as other servers of the protocol write it. */
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
                buf_truncate(out, before); /* a truncated URI would name another file */
        return r;
}

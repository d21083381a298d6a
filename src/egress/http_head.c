/* http_head: reads and writes the heads of HTTP/1 messages (RFC 9112), strictly. */
#include "egress/http_head.h"

#include <errno.h>
#include <stdio.h>

/* Fields of one connection (RFC 9110, 7.6.1), and one that is for this proxy. Those that must pass are written anew. */
static const char *const hop_fields[] = { "connection", "keep-alive",        "proxy-connection",   "te",
                                          "upgrade",    "transfer-encoding", "proxy-authorization" };

ssize_t http_head_find(struct slice in, size_t *scanned)
{
        while (*scanned < in.n) {
                const char *lf = memchr(in.p + *scanned, '\n', in.n - *scanned);
                if (!lf) {
                        *scanned = in.n;
                        return 0;
                }
                size_t at = (size_t)(lf - in.p);
                if (at == 0 || in.p[at - 1] != '\r')
                        return -EBADMSG;
                *scanned = at + 1;
                if (at >= 3 && in.p[at - 2] == '\n')
                        return (ssize_t)(at + 1);
        }
        return 0;
}

static bool is_token_char(unsigned char c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!is_token_char((unsigned char)s.p[i]))
                        return false;
        return s.n > 0;
}

/* A control character other than a tab ends lines for some programs. */
static bool is_text(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (((unsigned char)s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] == 0x7f)
                        return false;
        return true;
}

/* Takes the next line without its CRLF. The head ends in CRLF, and every LF in it has a CR before it. */
static struct slice next_line(struct slice *rest)
{
        struct slice line = slice_split(rest, '\n');
        return slice_from(line.p, line.n - 1);
}

static bool name_is(const struct http_field *f, const char *name)
{
        return slice_eq_nocase(f->name, slice_from_str(name));
}

/* --- the meaning of fields ---------------------------------------------------------------------------------------- */

static int take_length(struct http_head *h, struct slice value)
{
        if (h->framing != HTTP_NO_BODY || slice_to_u64(value, INT64_MAX, &h->length) < 0)
                return -EBADMSG;
        h->framing = HTTP_LENGTH;
        return 0;
}

static int take_encoding(struct http_head *h, struct slice value)
{
        if (h->framing != HTTP_NO_BODY || h->minor_version == 0 || !slice_eq_nocase(value, S("chunked")))
                return -EBADMSG;
        h->framing = HTTP_CHUNKED;
        return 0;
}

static int take_host(struct http_head *h, struct slice value)
{
        if (h->host.p)
                return -EBADMSG;
        h->host = value;
        return 0;
}

/* What a field says about framing must reach the other side, whatever Connection says. */
static bool may_be_named(struct slice token)
{
        return !slice_eq_nocase(token, S("content-length")) && !slice_eq_nocase(token, S("host"));
}

/* Drops the fields that a Connection field names. */
static int take_connection(struct http_head *h, struct slice value, bool *ret_upgrades)
{
        while (value.p) {
                struct slice token = slice_trim(slice_split(&value, ','));
                if (token.n == 0)
                        continue;
                if (!is_token(token) || !may_be_named(token))
                        return -EBADMSG;
                if (slice_eq_nocase(token, S("close")))
                        h->is_kept_alive = false;
                if (slice_eq_nocase(token, S("upgrade")))
                        *ret_upgrades = true;
                for (size_t i = 0; i < h->field_count; i++)
                        if (slice_eq_nocase(h->fields[i].name, token))
                                h->fields[i].is_dropped = true;
        }
        return 0;
}

static int take_meaning(struct http_head *h, struct http_field *f, bool *ret_upgrades)
{
        for (size_t i = 0; i < ARRAY_LEN(hop_fields); i++)
                if (name_is(f, hop_fields[i]))
                        f->is_dropped = true;
        if (name_is(f, "content-length"))
                return take_length(h, f->value);
        if (name_is(f, "transfer-encoding"))
                return take_encoding(h, f->value);
        if (name_is(f, "connection") || name_is(f, "proxy-connection"))
                return take_connection(h, f->value, ret_upgrades);
        if (name_is(f, "upgrade"))
                h->upgrade = f->value;
        h->has_unix_socket |= name_is(f, "x-unix-socket");
        return 0;
}

/* Reads the lines behind the first one. */
static int read_fields(struct slice rest, struct http_head *h, bool is_request)
{
        bool upgrades = false;
        for (struct slice line = next_line(&rest); line.n > 0; line = next_line(&rest)) {
                if (h->field_count == HTTP_FIELDS_MAX)
                        return -EMSGSIZE;
                struct slice value = line, name = slice_split(&value, ':');
                if (!value.p || !is_token(name) || !is_text(value))
                        return -EBADMSG;
                h->fields[h->field_count++] = (struct http_field){ .name = name, .value = slice_trim(value) };
        }
        /* All fields are there when Connection names some of them. */
        for (size_t i = 0; i < h->field_count; i++) {
                int r = take_meaning(h, &h->fields[i], &upgrades);
                if (r == 0 && is_request && name_is(&h->fields[i], "host"))
                        r = take_host(h, h->fields[i].value);
                if (r < 0)
                        return r;
        }
        if (!upgrades || h->minor_version == 0)
                h->upgrade = slice_from(NULL, 0);
        return 0;
}

static int read_version(struct slice s, struct http_head *h)
{
        if (!slice_eq(s, S("HTTP/1.1")) && !slice_eq(s, S("HTTP/1.0")))
                return -EBADMSG;
        h->minor_version = s.p[7] == '1';
        h->is_kept_alive = h->minor_version == 1;
        return 0;
}

static void clear(struct http_head *h)
{
        h->method = h->target = h->reason = h->upgrade = h->host = slice_from(NULL, 0);
        h->status = h->minor_version = 0;
        h->field_count = 0;
        h->framing = HTTP_NO_BODY;
        h->length = 0;
        h->is_kept_alive = h->has_unix_socket = false;
}

int http_request_read(struct slice head, struct http_head *ret)
{
        clear(ret);
        struct slice line = next_line(&head);
        ret->method = slice_split(&line, ' ');
        if (!line.p)
                return -EBADMSG;
        ret->target = slice_split(&line, ' ');
        if (!line.p || !is_token(ret->method) || ret->target.n == 0 || !is_text(ret->target) ||
            memchr(ret->target.p, '\t', ret->target.n) || memchr(ret->target.p, '#', ret->target.n) ||
            read_version(line, ret) < 0)
                return -EBADMSG;
        return read_fields(head, ret, true);
}

/* RFC 9112, 6.3. */
static void settle_body(struct http_head *h, struct slice method)
{
        if (h->status < 200 || h->status == 204 || h->status == 304 || slice_eq(method, S("HEAD")))
                h->framing = HTTP_NO_BODY;
        else if (h->framing == HTTP_NO_BODY)
                h->framing = HTTP_UNTIL_END;
        if (h->framing == HTTP_UNTIL_END)
                h->is_kept_alive = false;
}

int http_response_read(struct slice head, struct slice method, struct http_head *ret)
{
        clear(ret);
        uint64_t status;
        struct slice line = next_line(&head), version = slice_split(&line, ' ');
        if (!line.p || read_version(version, ret) < 0)
                return -EBADMSG;
        struct slice digits = slice_split(&line, ' ');
        if (digits.n != 3 || slice_to_u64(digits, 999, &status) < 0 || status < 100)
                return -EBADMSG;
        ret->status = (unsigned)status;
        ret->reason = line.p ? line : S("");
        if (!is_text(ret->reason))
                return -EBADMSG;
        int r = read_fields(head, ret, false);
        if (r == 0)
                settle_body(ret, method);
        return r;
}

/* --- where a request goes ----------------------------------------------------------------------------------------- */

int http_authority_read(struct slice text, uint16_t port, struct slice *ret_host, uint16_t *ret_port)
{
        struct slice host = text, digits = slice_from(NULL, 0);
        const char *end = text.n > 0 && text.p[0] == '[' ? memchr(text.p, ']', text.n) : NULL;
        if (end) {
                host = slice_from(text.p + 1, (size_t)(end - text.p) - 1);
                struct slice behind = slice_from(end + 1, text.n - host.n - 2);
                if (behind.n > 0 && behind.p[0] != ':')
                        return -EBADMSG;
                if (behind.n > 0)
                        digits = slice_from(behind.p + 1, behind.n - 1);
        } else {
                digits = text;
                host = slice_split(&digits, ':');
        }
        uint64_t number = port;
        if (digits.p && (digits.n > 5 || slice_to_u64(digits, UINT16_MAX, &number) < 0))
                return -EBADMSG;
        if (host.n == 0 || number == 0 || memchr(host.p, '@', host.n) || memchr(host.p, '[', host.n) ||
            memchr(host.p, '/', host.n))
                return -EBADMSG;
        *ret_host = host;
        *ret_port = (uint16_t)number;
        return 0;
}

static struct slice without_dot(struct slice host)
{
        return host.n > 1 && host.p[host.n - 1] == '.' ? slice_from(host.p, host.n - 1) : host;
}

static int compare_host(const struct http_head *h, const struct http_target *t)
{
        struct slice host;
        uint16_t port;
        if (!h->host.p)
                return 0;
        if (http_authority_read(h->host, t->is_tls ? 443 : 80, &host, &port) < 0)
                return -EXDEV;
        return port == t->port && slice_eq_nocase(without_dot(host), without_dot(t->host)) ? 0 : -EXDEV;
}

static int read_absolute(const struct http_head *h, struct http_target *ret)
{
        struct slice rest = h->target, scheme = slice_split(&rest, ':');
        ret->is_tls = slice_eq_nocase(scheme, S("https"));
        if (!rest.p || !slice_starts(rest, S("//")) || (!ret->is_tls && !slice_eq_nocase(scheme, S("http"))))
                return -EBADMSG;
        rest = slice_from(rest.p + 2, rest.n - 2);
        size_t n = 0;
        while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
                n++;
        ret->authority = slice_from(rest.p, n);
        ret->path = slice_from(rest.p + n, rest.n - n);
        int r = http_authority_read(ret->authority, ret->is_tls ? 443 : 80, &ret->host, &ret->port);
        return r < 0 ? r : compare_host(h, ret);
}

int http_target_read(const struct http_head *h, struct http_target *ret)
{
        *ret = (struct http_target){ 0 };
        if (slice_eq(h->method, S("CONNECT"))) {
                ret->authority = h->target;
                return http_authority_read(h->target, 80, &ret->host, &ret->port);
        }
        if (h->target.p[0] != '/' && !slice_eq(h->target, S("*")))
                return read_absolute(h, ret);
        if (!h->host.p || h->host.n == 0)
                return -ENOENT;
        ret->authority = h->host;
        ret->path = h->target;
        return http_authority_read(h->host, 80, &ret->host, &ret->port);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static int write_fields(struct buf *out, const struct http_head *h)
{
        int r = 0;
        for (size_t i = 0; i < h->field_count && r == 0; i++) {
                const struct http_field *f = &h->fields[i];
                if (f->is_dropped)
                        continue;
                r = buf_append(out, f->name);
                r = r ? r : buf_append(out, S(": "));
                r = r ? r : buf_append(out, f->value);
                r = r ? r : buf_append(out, S("\r\n"));
        }
        if (r == 0 && h->framing == HTTP_CHUNKED)
                r = buf_append(out, S("Transfer-Encoding: chunked\r\n"));
        return r;
}

static int write_upgrade(struct buf *out, const struct http_head *h)
{
        return buf_printf(out, "Connection: Upgrade\r\nUpgrade: %.*s\r\n", SLICE(h->upgrade));
}

/* An OPTIONS request about a whole server has no path in its absolute form (RFC 9112, 3.2.4). */
static struct slice path_of(const struct http_head *h, const struct http_target *t)
{
        if (t->path.n > 0)
                return t->path;
        return slice_eq(h->method, S("OPTIONS")) ? S("*") : S("/");
}

int http_request_write(struct buf *out, const struct http_head *h, const struct http_target *t,
                       bool is_absolute, bool upgrades)
{
        struct slice path = path_of(h, t);
        int r = buf_printf(out, "%.*s ", SLICE(h->method));
        if (r == 0 && is_absolute)
                r = buf_printf(out, "http://%.*s", SLICE(t->authority));
        if (r == 0 && path.p[0] == '?')
                r = buf_append_char(out, '/');
        if (r == 0 && !(is_absolute && slice_eq(path, S("*"))))
                r = buf_append(out, path);
        r = r ? r : buf_printf(out, " HTTP/1.%u\r\n", h->minor_version);
        if (r == 0 && !h->host.p)
                r = buf_printf(out, "Host: %.*s\r\n", SLICE(t->authority));
        r = r ? r : write_fields(out, h);
        if (r == 0 && upgrades && h->upgrade.p)
                r = write_upgrade(out, h);
        return r ? r : buf_append(out, S("\r\n"));
}

int http_response_write(struct buf *out, const struct http_head *h, bool is_kept_alive)
{
        int r = buf_printf(out, "HTTP/1.%u %03u %.*s\r\n", h->minor_version, h->status, SLICE(h->reason));
        r = r ? r : write_fields(out, h);
        if (r == 0 && h->status == 101)
                r = write_upgrade(out, h);
        else if (r == 0 && h->status >= 200 && !is_kept_alive)
                r = buf_append(out, S("Connection: close\r\n"));
        return r ? r : buf_append(out, S("\r\n"));
}

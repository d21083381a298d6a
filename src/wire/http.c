/* http: the head of an HTTP/1.1 request, and the head of an answer.
 *
 * The parser works line by line and stops at the first error, in the order of the bytes. So its result for a prefix is either
 * "more" or the result for the whole: no split of the input changes the outcome. Where RFC 9112 leaves a choice between
 * repairing and refusing, the parser refuses: requests are smuggled through two parsers that repair differently.
 */
#include "wire/http.h"

#include "base/clock.h"

#include <errno.h>

#define BLANK_LINES_MAX 2

static bool is_letter_or_digit(char c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Returns whether a token may contain the character: RFC 9110, 5.6.2. */
static bool is_token_char(char c)
{
        static const char others[] = "!#$%&'*+-.^_`|~";

        return is_letter_or_digit(c) || memchr(others, c, sizeof(others) - 1);
}

/* Returns whether the scheme of a URL may contain the character: RFC 3986, 3.1. */
static bool is_scheme_char(char c)
{
        return is_letter_or_digit(c) || c == '+' || c == '-' || c == '.';
}

static bool is_token(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (!is_token_char(s.p[i]))
                        return false;
        return s.n > 0;
}

static bool is_control(char c)
{
        return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Takes one line off *rest. Returns 1; 0 when the end of the line has not arrived; or -400. Control characters are refused here,
 * also in a line without an end, so that a client that speaks another protocol (TLS) is refused at once. */
static int line_take(struct slice *rest, struct slice *ret)
{
        size_t i = 0;

        while (i < rest->n && (!is_control(rest->p[i]) || rest->p[i] == '\t'))
                i++;
        *ret = slice_from(rest->p, i);
        if (i < rest->n && rest->p[i] == '\r')
                i++;
        if (i == rest->n)
                return 0;
        if (rest->p[i] != '\n')
                return -400;
        *rest = slice_from(rest->p + i + 1, rest->n - i - 1);
        return 1;
}

/* Reads "HTTP/1.x". Returns -505 for another major version, -400 for any other text. */
static int version_read(struct slice s, int *ret_minor)
{
        if (s.n != 8 || !slice_starts(s, S("HTTP/")) || s.p[6] != '.')
                return -400;
        if (s.p[5] < '0' || s.p[5] > '9' || s.p[7] < '0' || s.p[7] > '9')
                return -400;
        if (s.p[5] != '1')
                return -505;
        *ret_minor = s.p[7] - '0';
        return 0;
}

/* Takes scheme, "://" and authority off the front of *s; returns false when *s does not begin with them. A path, a query or
 * nothing remains. *ret_slash is a '/' of the target, for targets whose path is empty. */
static bool absolute_form_skip(struct slice *s, struct slice *ret_slash)
{
        size_t i = 0;

        while (i < s->n && is_scheme_char(s->p[i]))
                i++;
        if (i == 0 || !slice_starts(slice_from(s->p + i, s->n - i), S("://")))
                return false;
        *ret_slash = slice_from(s->p + i + 1, 1);

        size_t host = i += 3;
        while (i < s->n && s->p[i] != '/' && s->p[i] != '?')
                i++;
        *s = slice_from(s->p + i, s->n - i);
        return i > host;
}

/* Reads the target (RFC 9112, 3.2): a path, an absolute URI, an authority (CONNECT only) or "*". */
static int target_read(struct http_request *r)
{
        struct slice s = r->target, slash = { NULL, 0 };

        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] <= ' ' || s.p[i] > '~' || s.p[i] == '#')
                        return -400;
        r->path = s;
        r->query = (struct slice){ NULL, 0 };
        if (s.n == 0)
                return -400;
        if (slice_eq(s, S("*")) || slice_eq(r->method, S("CONNECT")))
                return 0;
        if (s.p[0] != '/' && !absolute_form_skip(&s, &slash))
                return -400;

        const char *mark = s.n ? memchr(s.p, '?', s.n) : NULL;
        r->path = mark ? slice_from(s.p, (size_t)(mark - s.p)) : s;
        if (mark)
                r->query = slice_from(mark + 1, (size_t)(s.p + s.n - mark - 1));
        if (r->path.n == 0)
                r->path = slash;
        return 0;
}

static int request_line_read(struct slice line, struct http_request *r)
{
        struct slice rest = line;

        r->method = slice_split(&rest, ' ');
        if (!is_token(r->method) || !rest.p)
                return -400;
        r->target = slice_split(&rest, ' ');
        if (!rest.p)
                return -400;

        int s = version_read(rest, &r->minor_version);
        return s < 0 ? s : target_read(r);
}

/* Notes a header that says where the request ends or for which host it is. Such a header may occur once only, because a proxy
 * before us may have used the other occurrence. */
static int framing_note(struct http_request *r, const struct http_header *h)
{
        if (slice_eq_nocase(h->name, S("host")))
                return http_header_count(r, S("host")) > 1 ? -400 : 0;

        if (slice_eq_nocase(h->name, S("content-length"))) {
                if (r->has_content_length || r->is_chunked)
                        return -400;
                r->has_content_length = true;
                return slice_to_u64(h->value, INT64_MAX, &r->content_length) < 0 ? -400 : 0;
        }

        if (slice_eq_nocase(h->name, S("transfer-encoding"))) {
                if (r->has_content_length || r->is_chunked || r->minor_version == 0)
                        return -400;
                if (!slice_eq_nocase(h->value, S("chunked")))
                        return -501;
                r->is_chunked = true;
        }
        return 0;
}

static int header_read(struct slice line, struct http_request *r)
{
        const char *colon = memchr(line.p, ':', line.n);

        if (!colon)
                return -400;
        struct http_header h = {
                .name = slice_from(line.p, (size_t)(colon - line.p)),
                .value = slice_trim(slice_from(colon + 1, (size_t)(line.p + line.n - colon - 1))),
        };
        /* A blank is no token character: this refuses folded lines and blanks before the colon too. */
        if (!is_token(h.name))
                return -400;
        if (r->header_count == HTTP_HEADERS_MAX)
                return -431;
        r->headers[r->header_count++] = h;
        return framing_note(r, &h);
}

static bool wants_keep_alive(const struct http_request *r)
{
        if (http_header_has_token(r, S("connection"), S("close")))
                return false;
        return r->minor_version >= 1 || http_header_has_token(r, S("connection"), S("keep-alive"));
}

/* As http_parse, for input that is already cut to the limit. Takes the head off *rest. */
static int head_read(struct slice *rest, struct http_request *r)
{
        struct slice line;
        int s, blank_lines = -1;

        do {
                s = line_take(rest, &line);
                if (s <= 0)
                        return s;
                if (++blank_lines > BLANK_LINES_MAX)
                        return -400;
        } while (line.n == 0);

        s = request_line_read(line, r);
        if (s < 0)
                return s;

        for (;;) {
                s = line_take(rest, &line);
                if (s <= 0)
                        return s;
                if (line.n == 0)
                        return 1;
                s = header_read(line, r);
                if (s < 0)
                        return s;
        }
}

ssize_t http_parse(struct slice in, struct http_request *ret)
{
        struct slice rest = slice_from(in.p, MIN(in.n, (size_t)HTTP_HEAD_MAX));

        /* The whole struct is not cleared: its table of headers is large, and header_count says how much of it is filled. */
        ret->header_count = 0;
        ret->has_content_length = false;
        ret->content_length = 0;
        ret->is_chunked = false;

        int s = head_read(&rest, ret);
        if (s < 0)
                return s;
        if (s == 0)
                return in.n < HTTP_HEAD_MAX ? 0 : -431;
        ret->is_kept_alive = wants_keep_alive(ret);
        return rest.p - in.p;
}

bool http_has_header(const struct http_header *headers, size_t count, struct slice name)
{
        for (size_t i = 0; i < count; i++)
                if (slice_eq(headers[i].name, name))
                        return true;
        return false;
}

struct slice http_header_find(const struct http_request *r, struct slice name)
{
        for (size_t i = 0; i < r->header_count; i++)
                if (slice_eq_nocase(r->headers[i].name, name))
                        return r->headers[i].value;
        return (struct slice){ NULL, 0 };
}

size_t http_header_count(const struct http_request *r, struct slice name)
{
        size_t count = 0;

        for (size_t i = 0; i < r->header_count; i++)
                count += slice_eq_nocase(r->headers[i].name, name);
        return count;
}

bool http_header_has_token(const struct http_request *r, struct slice name, struct slice token)
{
        for (size_t i = 0; i < r->header_count; i++) {
                struct slice rest = r->headers[i].value;

                if (!slice_eq_nocase(r->headers[i].name, name))
                        continue;
                do {
                        if (slice_eq_nocase(slice_trim(slice_split(&rest, ',')), token))
                                return true;
                } while (rest.p);
        }
        return false;
}

const char *http_reason(int status)
{
        static const struct {
                int status;
                const char *reason;
        } reasons[] = {
                { 100, "Continue" },
                { 101, "Switching Protocols" },
                { 200, "OK" },
                { 202, "Accepted" },
                { 204, "No Content" },
                { 304, "Not Modified" },
                { 400, "Bad Request" },
                { 401, "Unauthorized" },
                { 403, "Forbidden" },
                { 404, "Not Found" },
                { 405, "Method Not Allowed" },
                { 406, "Not Acceptable" },
                { 408, "Request Timeout" },
                { 409, "Conflict" },
                { 411, "Length Required" },
                { 413, "Content Too Large" },
                { 414, "URI Too Long" },
                { 415, "Unsupported Media Type" },
                { 421, "Misdirected Request" },
                { 426, "Upgrade Required" },
                { 429, "Too Many Requests" },
                { 431, "Request Header Fields Too Large" },
                { 500, "Internal Server Error" },
                { 501, "Not Implemented" },
                { 503, "Service Unavailable" },
                { 505, "HTTP Version Not Supported" },
        };

        for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
                if (reasons[i].status == status)
                        return reasons[i].reason;
        return "Unknown";
}

/* Writes the date header (RFC 9110, 5.6.7). strftime is not used, because it writes the language of the locale. */
static int date_write(struct buf *out)
{
        static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
        static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
        time_t now = (time_t)(clock_unix_ms() / 1000);
        struct tm tm;

        if (!gmtime_r(&now, &tm))
                return 0; /* the year does not fit; an answer without a date is allowed */
        return buf_printf(out, "date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n", days[tm.tm_wday], tm.tm_mday,
                          months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static int answer_write(struct buf *out, const struct http_answer *a)
{
        /* RFC 9110, 8.6 and 6.4.1: answers with 1xx and 204 have no body and must not announce one. */
        bool never_has_body = a->status < 200 || a->status == 204;
        bool has_body = !never_has_body && a->status != 304 && !a->is_head;
        int r;

        r = buf_printf(out, "HTTP/1.1 %d %s\r\n", a->status, http_reason(a->status));
        if (r >= 0 && a->content_type)
                r = buf_printf(out, "content-type: %s\r\n", a->content_type);
        if (r >= 0 && !never_has_body)
                r = buf_printf(out, "content-length: %zu\r\n", a->body.n);
        if (r >= 0)
                r = date_write(out);
        if (r >= 0 && a->wants_close)
                r = buf_append(out, S("connection: close\r\n"));
        if (r >= 0 && a->extra_headers)
                r = buf_append(out, slice_from_str(a->extra_headers));
        if (r >= 0)
                r = buf_append(out, S("\r\n"));
        if (r >= 0 && has_body)
                r = buf_append(out, a->body);
        return MIN(r, 0);
}

int http_answer_write(struct buf *out, const struct http_answer *answer)
{
        size_t before = out->n;
        int r = answer_write(out, answer);

        if (r < 0)
                buf_truncate(out, before); /* half an answer would be taken for a whole one */
        return r;
}

/* http_test: request heads that are good, broken or cut, and what is written back. */
#include "base/buf.h"
#include "base/mem.h"
#include "unit.h"
#include "wire/http.h"

#include <errno.h>

/* Parses a copy that has no byte to spare, so that reading behind it is seen by a sanitizer. */
static ssize_t parse_exact(struct slice in, struct http_request *ret, char **ret_copy)
{
        char *copy = mem_alloc(MAX(in.n, 1u));

        if (in.n)
                memcpy(copy, in.p, in.n);
        *ret_copy = copy;
        return http_parse(slice_from(copy, in.n), ret);
}

static void is_inside(struct slice s, struct slice in)
{
        ok(s.p >= in.p && s.p + s.n <= in.p + in.n);
}

static void show_request(struct buf *out, const struct http_request *r)
{
        eq_int(buf_printf(out, "%.*s %.*s ", SLICE(r->method), SLICE(r->path)), 0);
        if (r->query.p)
                eq_int(buf_printf(out, "?%.*s ", SLICE(r->query)), 0);
        eq_int(buf_printf(out, "1.%d", r->minor_version), 0);
        for (size_t i = 0; i < r->header_count; i++)
                eq_int(buf_printf(out, " %.*s=%.*s", SLICE(r->headers[i].name), SLICE(r->headers[i].value)),
                       0);
        if (r->has_content_length)
                eq_int(buf_printf(out, " len%llu", (unsigned long long)r->content_length), 0);
        if (r->is_chunked)
                eq_int(buf_printf(out, " chunked"), 0);
        if (!r->is_kept_alive)
                eq_int(buf_printf(out, " closes"), 0);
}

#define LINE "GET / HTTP/1.1\r\n"

static const struct {
        struct slice in;
        const char *expect;
} good[] = {
        /* request lines */
        { S("GET / HTTP/1.1\r\n\r\n"), "GET / 1.1" },
        { S("GET / HTTP/1.0\r\n\r\n"), "GET / 1.0 closes" },
        { S("GET / HTTP/1.7\r\n\r\n"), "GET / 1.7" },
        { S("GET / HTTP/1.1\n\n"), "GET / 1.1" },
        { S("GET / HTTP/1.1\r\nA: b\n\r\n"), "GET / 1.1 A=b" },
        { S("\r\n\nGET / HTTP/1.1\r\n\r\n"), "GET / 1.1" },
        { S("M-SEARCH!#$%&'*+.^_`|~ / HTTP/1.1\r\n\r\n"), "M-SEARCH!#$%&'*+.^_`|~ / 1.1" },
        { S("OPTIONS * HTTP/1.1\r\n\r\n"), "OPTIONS * 1.1" },
        { S("CONNECT example.com:443 HTTP/1.1\r\n\r\n"), "CONNECT example.com:443 1.1" },
        { S("GET /hoge?a=1&b=?2 HTTP/1.1\r\n\r\n"), "GET /hoge ?a=1&b=?2 1.1" },
        { S("GET /? HTTP/1.1\r\n\r\n"), "GET / ? 1.1" },
        { S("GET //a/../b%00 HTTP/1.1\r\n\r\n"), "GET //a/../b%00 1.1" },
        { S("GET http://h:80/p/q?r HTTP/1.1\r\n\r\n"), "GET /p/q ?r 1.1" },
        { S("GET http://h HTTP/1.1\r\n\r\n"), "GET / 1.1" },
        { S("GET ws+x://[::1]:8?q/r HTTP/1.1\r\n\r\n"), "GET / ?q/r 1.1" },
        /* headers */
        { S(LINE "Host: example.com\r\nCookie: \r\n\r\n"), "GET / 1.1 Host=example.com Cookie=" },
        { S(LINE "a:b\r\nc: \t d e \t\r\n\r\n"), "GET / 1.1 a=b c=d e" },
        { S(LINE "a::b:\r\n\r\n"), "GET / 1.1 a=:b:" },
        { S(LINE "a: \xe3\x81\x82 \xff\r\n\r\n"), "GET / 1.1 a=\xe3\x81\x82 \xff" },
        { S(LINE "a: x\ty\r\n\r\n"), "GET / 1.1 a=x\ty" },
        { S(LINE "a:\r\na:\n\n"), "GET / 1.1 a= a=" },
        /* bodies */
        { S("PUT /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), "PUT /x 1.1 Content-Length=0 len0" },
        { S("PUT /x HTTP/1.1\r\ncontent-LENGTH:12\r\n\r\n"), "PUT /x 1.1 content-LENGTH=12 len12" },
        { S("PUT /x HTTP/1.1\r\nContent-Length: 9223372036854775807\r\n\r\n"),
          "PUT /x 1.1 Content-Length=9223372036854775807 len9223372036854775807" },
        { S("PUT /x HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"),
          "PUT /x 1.1 Transfer-Encoding=Chunked chunked" },
        /* connection */
        { S(LINE "Connection: x, Close ,y\r\n\r\n"), "GET / 1.1 Connection=x, Close ,y closes" },
        { S(LINE "Connection: closed\r\n\r\n"), "GET / 1.1 Connection=closed" },
        { S(LINE "Connection: x\r\nconnection: close\r\n\r\n"),
          "GET / 1.1 Connection=x connection=close closes" },
        { S("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"), "GET / 1.0 Connection=Keep-Alive" },
        { S("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"),
          "GET / 1.0 Connection=keep-alive, close closes" },
        { S("GET / HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"),
          "GET / 1.1 Host=server.example.com Upgrade=websocket Connection=Upgrade "
          "Sec-WebSocket-Key=dGhlIHNhbXBsZSBub25jZQ== Sec-WebSocket-Version=13" },
};

static const struct {
        struct slice in;
        int status;
} broken[] = {
        /* request lines */
        { S("GET / HTTP/2.0\r\n\r\n"), 505 },
        { S("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505 },
        { S("GET / HTTP/0.9\r\n\r\n"), 505 },
        { S("GET /\r\n\r\n"), 400 },
        { S("GET\r\n\r\n"), 400 },
        { S("GET / \r\n\r\n"), 400 },
        { S("GET  / HTTP/1.1\r\n\r\n"), 400 },
        { S("GET /  HTTP/1.1\r\n\r\n"), 400 },
        { S("GET / HTTP/1.1 \r\n\r\n"), 400 },
        { S(" GET / HTTP/1.1\r\n\r\n"), 400 },
        { S(" / HTTP/1.1\r\n\r\n"), 400 },
        { S("GET\t/ HTTP/1.1\r\n\r\n"), 400 },
        { S("GET / http/1.1\r\n\r\n"), 400 },
        { S("GET / HTTP/1\r\n\r\n"), 400 },
        { S("GET / HTTP/1.10\r\n\r\n"), 400 },
        { S("GET / HTTP/1,1\r\n\r\n"), 400 },
        { S("GET / HTTP/x.1\r\n\r\n"), 400 },
        { S("GET / HTTP/1.x\r\n\r\n"), 400 },
        { S("G(T / HTTP/1.1\r\n\r\n"), 400 },
        { S("G\xc3\xa9T / HTTP/1.1\r\n\r\n"), 400 },
        { S("GET /\xc3\xa9 HTTP/1.1\r\n\r\n"), 400 },
        { S("GET /\x7f HTTP/1.1\r\n\r\n"), 400 },
        { S("GET /a\tb HTTP/1.1\r\n\r\n"), 400 },
        { S("GET /a#b HTTP/1.1\r\n\r\n"), 400 },
        { S("GET a HTTP/1.1\r\n\r\n"), 400 },
        { S("GET ?a HTTP/1.1\r\n\r\n"), 400 },
        { S("GET http:/a HTTP/1.1\r\n\r\n"), 400 },
        { S("GET http:///a HTTP/1.1\r\n\r\n"), 400 },
        { S("GET ://h/a HTTP/1.1\r\n\r\n"), 400 },
        { S("GET h_t://h/a HTTP/1.1\r\n\r\n"), 400 },
        { S("GET example.com:443 HTTP/1.1\r\n\r\n"), 400 },
        { S("\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n"), 400 },
        { S("\rGET / HTTP/1.1\r\n\r\n"), 400 },
        { S("GET /\0 HTTP/1.1\r\n\r\n"), 400 },
        { S("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400 }, /* TLS, and no line end in sight */
        /* headers */
        { S(LINE "Host\r\n\r\n"), 400 },
        { S(LINE ": x\r\n\r\n"), 400 },
        { S(LINE "Host : x\r\n\r\n"), 400 },
        { S(LINE "Ho st: x\r\n\r\n"), 400 },
        { S(LINE "Host\t: x\r\n\r\n"), 400 },
        { S(LINE " Host: x\r\n\r\n"), 400 },
        { S(LINE "a: b\r\n c\r\n\r\n"), 400 },
        { S(LINE "a: b\r\n\tc: d\r\n\r\n"), 400 },
        { S(LINE "a: b\r\n \r\n\r\n"), 400 },
        { S(LINE "a: b\rc: d\r\n\r\n"), 400 },
        { S(LINE "a: b\r\r\n\r\n"), 400 },
        { S(LINE "a: b\0c\r\n\r\n"), 400 },
        { S(LINE "a: b\x01\r\n\r\n"), 400 },
        { S(LINE "a: b\x7f\r\n\r\n"), 400 },
        { S(LINE "a: \x1b[1m\r\n\r\n"), 400 },
        { S(LINE "a\0: b\r\n\r\n"), 400 },
        { S(LINE "a\xc3\xa9: b\r\n\r\n"), 400 },
        { S(LINE "a=b: c\r\n\r\n"), 400 },
        { S(LINE "\rX"), 400 },
        { S(LINE "Host: a\r\nHost: b\r\n\r\n"), 400 },
        /* request smuggling */
        { S(LINE "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 1\r\ncontent-length: 2\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 1, 1\r\n\r\n"), 400 },
        { S(LINE "Content-Length: +1\r\n\r\n"), 400 },
        { S(LINE "Content-Length: -1\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 0x1\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 1_0\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 1 0\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 1e1\r\n\r\n"), 400 },
        { S(LINE "Content-Length:\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 9223372036854775808\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 18446744073709551617\r\n\r\n"), 400 },
        { S(LINE "Content-Length : 1\r\n\r\n"), 400 },
        { S(LINE "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400 },
        { S(LINE "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"), 400 },
        { S(LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400 },
        { S(LINE "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"), 400 },
        { S("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400 },
        { S(LINE "Transfer-Encoding : chunked\r\n\r\n"), 400 },
        { S(LINE "X: y\r\n Transfer-Encoding: chunked\r\n\r\n"), 400 },
        { S(LINE "Transfer-Encoding:\x0b"
                 "chunked\r\n\r\n"),
          400 },
        { S(LINE "Transfer-Encoding: xchunked\r\n\r\n"), 501 },
        { S(LINE "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501 },
        { S(LINE "Transfer-Encoding: chunked, identity\r\n\r\n"), 501 },
        { S(LINE "Transfer-Encoding: chunked;x=y\r\n\r\n"), 501 },
        { S(LINE "Transfer-Encoding: \"chunked\"\r\n\r\n"), 501 },
        { S(LINE "Transfer-Encoding: identity\r\n\r\n"), 501 },
        { S(LINE "Transfer-Encoding:\r\n\r\n"), 501 },
};

TEST(good_heads_are_read_and_point_into_the_input)
{
        for (size_t c = 0; c < ARRAY_LEN(good); c++) {
                _buf_ struct buf shown = BUF_INIT(4096);
                _free_ char *copy = NULL;
                struct http_request r;
                ssize_t n = parse_exact(good[c].in, &r, &copy);
                struct slice in = slice_from(copy, good[c].in.n);

                eq_int(n, good[c].in.n);
                show_request(&shown, &r);
                eq_str(shown.p, good[c].expect);
                is_inside(r.method, in);
                is_inside(r.target, in);
                is_inside(r.path, in);
                if (r.query.p)
                        is_inside(r.query, in);
                for (size_t i = 0; i < r.header_count; i++) {
                        is_inside(r.headers[i].name, in);
                        is_inside(r.headers[i].value, in);
                }
        }
}

TEST(every_truncation_of_a_good_head_needs_more)
{
        for (size_t c = 0; c < ARRAY_LEN(good); c++) {
                for (size_t n = 0; n < good[c].in.n; n++) {
                        _free_ char *copy = NULL;
                        struct http_request r;
                        eq_int(parse_exact(slice_from(good[c].in.p, n), &r, &copy), 0);
                }
        }
}

TEST(bytes_behind_the_head_change_nothing)
{
        static const struct slice tails[] = { S("x"), S("\r\n"), S(" folded"), S("\0\xff"), S(LINE "\r\n") };

        for (size_t c = 0; c < ARRAY_LEN(good); c++) {
                for (size_t t = 0; t < ARRAY_LEN(tails); t++) {
                        _buf_ struct buf in = BUF_INIT(4096), shown = BUF_INIT(4096);
                        struct http_request r;

                        eq_int(buf_append(&in, good[c].in), 0);
                        eq_int(buf_append(&in, tails[t]), 0);
                        eq_int(http_parse(buf_slice(&in), &r), good[c].in.n);
                        show_request(&shown, &r);
                        eq_str(shown.p, good[c].expect);
                }
        }
}

TEST(broken_heads_are_refused_with_the_same_status_in_every_split)
{
        for (size_t c = 0; c < ARRAY_LEN(broken); c++) {
                bool was_refused = false;

                for (size_t n = 0; n <= broken[c].in.n; n++) {
                        _free_ char *copy = NULL;
                        struct http_request r;
                        ssize_t got = parse_exact(slice_from(broken[c].in.p, n), &r, &copy);

                        if (was_refused || got != 0)
                                eq_int(got, -broken[c].status);
                        was_refused |= got != 0;
                }
                if (!was_refused)
                        fail_msg("accepted: %.*s", SLICE(broken[c].in));
        }
}

/* Makes a head of `total` bytes: "GET / HTTP/1.1", one header that is as long as it takes, the empty line. */
static void head_of_size(struct buf *b, size_t total)
{
        static const struct slice front = S(LINE "a: ");

        eq_int(buf_append(b, front), 0);
        while (b->n < total - 4)
                eq_int(buf_append_char(b, 'x'), 0);
        eq_int(buf_append(b, S("\r\n\r\n")), 0);
        eq_u64(b->n, total);
}

TEST(head_up_to_the_limit_is_accepted_and_one_byte_more_is_431)
{
        struct http_request r;
        _buf_ struct buf fits = BUF_INIT(HTTP_HEAD_MAX * 2), over = BUF_INIT(HTTP_HEAD_MAX * 2);

        head_of_size(&fits, HTTP_HEAD_MAX);
        eq_int(http_parse(buf_slice(&fits), &r), HTTP_HEAD_MAX);
        eq_int(http_parse(slice_from(fits.p, fits.n - 1), &r), 0);
        eq_int(buf_append(&fits, S("a body, or the next request")), 0);
        eq_int(http_parse(buf_slice(&fits), &r), HTTP_HEAD_MAX);

        head_of_size(&over, HTTP_HEAD_MAX + 1);
        eq_int(http_parse(buf_slice(&over), &r), -431);
        eq_int(http_parse(slice_from(over.p, HTTP_HEAD_MAX), &r), -431);
        eq_int(http_parse(slice_from(over.p, HTTP_HEAD_MAX - 1), &r), 0);
}

TEST(a_hundred_headers_are_accepted_and_one_more_is_431)
{
        struct http_request r;
        _buf_ struct buf b = BUF_INIT(HTTP_HEAD_MAX);

        eq_int(buf_append(&b, S(LINE)), 0);
        for (int i = 0; i < HTTP_HEADERS_MAX; i++)
                eq_int(buf_printf(&b, "h%d: v\r\n", i), 0);
        size_t before_end = b.n;
        eq_int(buf_append(&b, S("\r\n")), 0);
        eq_int(http_parse(buf_slice(&b), &r), b.n);
        eq_u64(r.header_count, HTTP_HEADERS_MAX);
        eq_slice(http_header_find(&r, S("H99")), S("v"));

        buf_truncate(&b, before_end);
        eq_int(buf_append(&b, S("one: more\r\n\r\n")), 0);
        eq_int(http_parse(buf_slice(&b), &r), -431);
}

TEST(headers_are_found_by_name_without_case)
{
        static const struct slice in = S(LINE "Accept: a, b\r\nX-One:\r\naccept:,  C ,\r\n\r\n");
        struct http_request r;

        ok(http_parse(in, &r) > 0);
        eq_slice(http_header_find(&r, S("ACCEPT")), S("a, b"));
        eq_u64(http_header_find(&r, S("x-one")).n, 0);
        ok(http_header_find(&r, S("x-one")).p);
        ok(!http_header_find(&r, S("x-on")).p);
        eq_u64(http_header_count(&r, S("accept")), 2);
        eq_u64(http_header_count(&r, S("nothing")), 0);
        ok(http_header_has_token(&r, S("accept"), S("B")));
        ok(http_header_has_token(&r, S("accept"), S("c")));
        ok(!http_header_has_token(&r, S("accept"), S("a, b")));
        ok(!http_header_has_token(&r, S("accept"), S("ab")));
        ok(!http_header_has_token(&r, S("x-one"), S("a")));
}

/* Removes the date header, after a check of its form. */
static void without_date(struct buf *b)
{
        char *date = strstr(b->p, "date: ");
        char day[4], month[4];
        int dom, year, hour, minute, second, end = 0;

        ok(date);
        eq_int(sscanf(date, "date: %3s, %2d %3s %4d %2d:%2d:%2d GMT%n", day, &dom, month, &year, &hour,
                      &minute, &second, &end),
               6 + 1);
        eq_int(end, 35);
        end += 2;
        memmove(date, date + end, (size_t)(b->p + b->n - date - end) + 1);
        buf_truncate(b, b->n - (size_t)end);
}

TEST(answers_are_written_with_length_date_and_body)
{
        static const struct {
                struct http_answer answer;
                const char *expect;
        } cases[] = {
                { { .status = 200, .content_type = "text/plain", .body = S("ok\n") },
                  "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nok\n" },
                { { .status = 404, .wants_close = true },
                  "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" },
                { { .status = 405, .extra_headers = "allow: GET\r\nvary: x\r\n" },
                  "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\nallow: GET\r\nvary: x\r\n\r\n" },
                { { .status = 200, .body = S("12345"), .is_head = true },
                  "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n" },
                { { .status = 101, .extra_headers = "upgrade: websocket\r\n", .body = S("none") },
                  "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n" },
                { { .status = 204, .body = S("none") }, "HTTP/1.1 204 No Content\r\n\r\n" },
                { { .status = 304, .body = S("12345") },
                  "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n" },
                { { .status = 799 }, "HTTP/1.1 799 Unknown\r\ncontent-length: 0\r\n\r\n" },
        };

        for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
                _buf_ struct buf out = BUF_INIT(4096);
                eq_int(http_answer_write(&out, &cases[c].answer), 0);
                without_date(&out);
                eq_str(out.p, cases[c].expect);
        }
}

TEST(answer_that_does_not_fit_leaves_nothing_behind)
{
        const struct http_answer answer = { .status = 200, .body = S("body") };
        _buf_ struct buf whole = BUF_INIT(4096);

        eq_int(http_answer_write(&whole, &answer), 0);
        for (size_t room = 0; room < whole.n; room++) {
                _buf_ struct buf out = BUF_INIT(6 + room);

                eq_int(buf_append(&out, S("before")), 0);
                eq_int(http_answer_write(&out, &answer), -ENOBUFS);
                eq_str(out.p, "before");
        }
}

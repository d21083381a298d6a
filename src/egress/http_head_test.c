/* http_head_test: which heads are accepted, where they lead, and how they are passed on. */
#include "egress/http_head.h"

#include "unit.h"

#include <errno.h>
#include <stdio.h>

/* Returns how a request is passed on, or the name of what is wrong with it. */
static const char *pass(const char *text)
{
        static char out[4096];
        static struct http_head h;
        struct http_target t;
        struct slice in = slice_from_str(text);
        size_t scanned = 0;
        ssize_t n = http_head_find(in, &scanned);
        if (n == 0)
                return "more";
        if (n < 0)
                return "bad";
        int r = http_request_read(slice_from(text, (size_t)n), &h);
        if (r < 0)
                return r == -EMSGSIZE ? "large" : "bad";
        r = http_target_read(&h, &t);
        if (r < 0)
                return r == -ENOENT ? "no host" : r == -EXDEV ? "other host" : "bad target";
        _buf_ struct buf b = BUF_INIT(4096);
        eq_int(http_request_write(&b, &h, &t, false, true), 0);
        (void)snprintf(out, sizeof(out), "%.*s:%u|%.*s", SLICE(t.host), t.port, SLICE(buf_slice(&b)));
        return out;
}

TEST(an_absolute_target_becomes_a_path)
{
        eq_str(pass("GET http://a.test:81/x?y HTTP/1.1\r\nHost: a.test:81\r\nX: 1\r\n\r\n"),
               "a.test:81|GET /x?y HTTP/1.1\r\nHost: a.test:81\r\nX: 1\r\n\r\n");
        eq_str(pass("GET http://a.test HTTP/1.1\r\nHost: A.TEST:80\r\n\r\n"),
               "a.test:80|GET / HTTP/1.1\r\nHost: A.TEST:80\r\n\r\n");
        eq_str(pass("GET http://a.test?q HTTP/1.1\r\n\r\n"),
               "a.test:80|GET /?q HTTP/1.1\r\nHost: a.test\r\n\r\n");
        eq_str(pass("OPTIONS http://a.test HTTP/1.1\r\n\r\n"),
               "a.test:80|OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n");
        eq_str(pass("GET http://[::1]:8/ HTTP/1.0\r\n\r\n"), "::1:8|GET / HTTP/1.0\r\nHost: [::1]:8\r\n\r\n");
}

TEST(a_path_goes_where_the_host_field_says)
{
        eq_str(pass("GET /x HTTP/1.1\r\nhost: b:8\r\n\r\n"), "b:8|GET /x HTTP/1.1\r\nhost: b:8\r\n\r\n");
        eq_str(pass("GET /x HTTP/1.1\r\n\r\n"), "no host");
        eq_str(pass("GET /x HTTP/1.1\r\nHost:\r\n\r\n"), "no host");
        eq_str(pass("GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), "bad");
        eq_str(pass("CONNECT a:443 HTTP/1.1\r\nHost: b\r\n\r\n"),
               "a:443|CONNECT / HTTP/1.1\r\nHost: b\r\n\r\n");
        eq_str(pass("CONNECT a HTTP/1.1\r\n\r\n"), "a:80|CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n");
}

TEST(a_host_field_that_differs_from_the_target_is_refused)
{
        eq_str(pass("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n"), "other host");
        eq_str(pass("GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n"), "other host");
        eq_str(pass("GET http://a/ HTTP/1.1\r\nHost: a:81\r\n\r\n"), "other host");
        eq_str(pass("GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n"), "other host");
}

TEST(fields_of_one_connection_are_dropped)
{
        eq_str(pass("GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: close, X-One\r\nX-One: 1\r\nX-Two: "
                    "2\r\nKeep-Alive: 5\r\n"
                    "TE: trailers\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\n\r\n"),
               "a:80|GET / HTTP/1.1\r\nHost: a\r\nX-Two: 2\r\n\r\n");
        eq_str(pass("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
               "a:80|GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        eq_str(pass("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n"),
               "a:80|GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        eq_str(pass("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
               "a:80|POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
}

TEST(what_two_programs_could_read_in_two_ways_is_refused)
{
        static const char *const bad[] = {
                "GET / HTTP/1.1\nHost: a\n\n",
                "GET / HTTP/1.1\r\nHost: a\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
                "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
                ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n"),
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
                "GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: 1\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: host\r\n\r\n",
                "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
                "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
                "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n",
                "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
                "\r\n\r\n",
                "garbage\r\n\r\n",
        };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                eq_str(pass(bad[i]), "bad");
        static const char nul[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
        struct http_head h;
        eq_int(http_request_read(slice_from(nul, sizeof(nul) - 1), &h), -EBADMSG);
        eq_str(pass("GET ftp://a/ HTTP/1.1\r\n\r\n"), "bad target");
        eq_str(pass("GET http://u@a/ HTTP/1.1\r\n\r\n"), "bad target");
        eq_str(pass("GET http://a:0/ HTTP/1.1\r\n\r\n"), "bad target");
        eq_str(pass("GET http://a:/ HTTP/1.1\r\n\r\n"), "bad target");
        eq_str(pass("GET http://a:65536/ HTTP/1.1\r\n\r\n"), "bad target");
        eq_str(pass("GET http:/// HTTP/1.1\r\n\r\n"), "bad target");
        eq_str(pass("CONNECT  HTTP/1.1\r\n\r\n"), "bad");
}

TEST(the_end_of_a_head_is_found_wherever_it_is_split)
{
        static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nbody";
        size_t whole = sizeof(text) - 5;
        for (size_t split = 0; split < whole; split++) {
                size_t scanned = 0;
                eq_int(http_head_find(slice_from(text, split), &scanned), 0);
                eq_int(http_head_find(slice_from(text, sizeof(text) - 1), &scanned), whole);
        }
}

/* Returns how a response is passed on and where its body ends. */
static const char *reply(const char *text, const char *method)
{
        static char out[1024];
        static struct http_head h;
        static const char *const framings[] = { "none", "length", "chunks", "end" };
        if (http_response_read(slice_from_str(text), slice_from_str(method), &h) < 0)
                return "bad";
        _buf_ struct buf b = BUF_INIT(1024);
        eq_int(http_response_write(&b, &h, h.is_kept_alive), 0);
        (void)snprintf(out, sizeof(out), "%s %u|%.*s", framings[h.framing], (unsigned)h.length,
                       SLICE(buf_slice(&b)));
        return out;
}

TEST(responses_end_where_both_sides_say)
{
        eq_str(reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: 1\r\n\r\n", "GET"),
               "length 5|HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        eq_str(reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD"),
               "none 5|HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
        eq_str(reply("HTTP/1.1 204 \r\n\r\n", "GET"), "none 0|HTTP/1.1 204 \r\n\r\n");
        eq_str(reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", "GET"),
               "chunks 0|HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        eq_str(reply("HTTP/1.1 200 OK\r\n\r\n", "GET"), "end 0|HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        eq_str(reply("HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n", "GET"),
               "length 0|HTTP/1.0 200 \r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        eq_str(reply("HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "GET"),
               "none 0|HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        eq_str(reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "GET"),
               "bad");
        eq_str(reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "GET"), "bad");
        eq_str(reply("HTTP/1.1 99 x\r\n\r\n", "GET"), "bad");
        eq_str(reply("HTTP/3 200 OK\r\n\r\n", "GET"), "bad");
        eq_str(reply("nonsense\r\n\r\n", "GET"), "bad");
}

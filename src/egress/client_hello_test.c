/* client_hello_test: the name is found whatever the records are, and what two readers could read differently is broken. */
#include "base/buf.h"
#include "base/mem.h"
#include "egress/client_hello.h"
#include "unit.h"

static void put(struct buf *b, size_t bytes, size_t v)
{
        for (size_t i = bytes; i-- > 0;)
                eq_int(buf_append_char(b, (char)(v >> 8 * i & 0xff)), 0);
}

static void vector(struct buf *b, size_t length_bytes, struct slice s)
{
        put(b, length_bytes, s.n);
        eq_int(buf_append(b, s), 0);
}

static void extension(struct buf *b, size_t type, struct slice s)
{
        put(b, 2, type);
        vector(b, 2, s);
}

static void server_name(struct buf *b, struct slice host)
{
        _buf_ struct buf list = BUF_INIT(70000), inner = BUF_INIT(70000);
        put(&inner, 1, 0);
        vector(&inner, 2, host);
        vector(&list, 2, buf_slice(&inner));
        extension(b, 0, buf_slice(&list));
}

/* A ClientHello with these extensions, in records of `piece` bytes. */
static void hello(struct buf *out, struct slice extensions, size_t piece)
{
        _buf_ struct buf body = BUF_INIT(70000), message = BUF_INIT(70000);
        put(&body, 2, 0x0303);
        for (size_t i = 0; i < 32; i++)
                put(&body, 1, i);
        vector(&body, 1, S("session"));
        vector(&body, 2, S("\x13\x01\x13\x02"));
        vector(&body, 1, S("\0"));
        if (extensions.p)
                vector(&body, 2, extensions);
        put(&message, 1, 1);
        vector(&message, 3, buf_slice(&body));
        struct slice rest = buf_slice(&message);
        while (rest.n > 0) {
                size_t n = MIN(piece, rest.n);
                put(out, 3, 0x160301);
                vector(out, 2, slice_from(rest.p, n));
                rest = slice_from(rest.p + n, rest.n - n);
        }
}

static enum client_hello_kind kind_of(struct slice extensions)
{
        _buf_ struct buf out = BUF_INIT(140000);
        hello(&out, extensions, 16384);
        return client_hello_read(buf_slice(&out)).kind;
}

/* Each beginning is copied into memory of its own length, so that a sanitizer sees a read behind its end. */
TEST(the_name_is_found_in_any_records_and_no_earlier_than_it_is_whole)
{
        static const size_t pieces[] = { 1, 2, 3, 7, 50, 16384 };
        for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
                _buf_ struct buf extensions = BUF_INIT(1000), out = BUF_INIT(4000);
                extension(&extensions, 10, S("\0\2\0\x17"));
                server_name(&extensions, S("www.Example.test"));
                extension(&extensions, 16, S("\0\3\2h2"));
                hello(&out, buf_slice(&extensions), pieces[i]);
                for (size_t n = 0; n < out.n; n++) {
                        _free_ char *copy = mem_alloc(MAX(n, (size_t)1));
                        memcpy(copy, out.p, n);
                        eq_int(client_hello_read(slice_from(copy, n)).kind, CLIENT_HELLO_MORE);
                }
                struct client_hello h = client_hello_read(buf_slice(&out));
                eq_int(h.kind, CLIENT_HELLO_NAMED);
                eq_str(h.host, "www.example.test");
                eq_int(h.host_n, 16);
                ok(!h.has_ech);
                /* What comes behind the hello is not looked at. */
                eq_int(buf_append(&out, S("anything")), 0);
                eq_int(client_hello_read(buf_slice(&out)).kind, CLIENT_HELLO_NAMED);
        }
}

TEST(a_hello_without_a_name_is_nameless)
{
        eq_int(kind_of(S("\0\x0a\0\4\0\2\0\x17")), CLIENT_HELLO_NAMELESS);
        eq_int(kind_of(S("")), CLIENT_HELLO_NAMELESS);
        eq_int(kind_of((struct slice){ 0 }), CLIENT_HELLO_NAMELESS);
}

TEST(an_encrypted_hello_is_noticed)
{
        static const size_t types[] = { 0xfe0d, 0xffce };
        for (size_t i = 0; i < ARRAY_LEN(types); i++) {
                _buf_ struct buf extensions = BUF_INIT(1000), out = BUF_INIT(4000);
                extension(&extensions, types[i], S("\0\0\1"));
                server_name(&extensions, S("outer.test"));
                hello(&out, buf_slice(&extensions), 100);
                struct client_hello h = client_hello_read(buf_slice(&out));
                eq_int(h.kind, CLIENT_HELLO_NAMED);
                ok(h.has_ech);
        }
}

TEST(other_protocols_are_not_tls)
{
        static const struct slice others[] = {
                S("SSH-2.0-x\r\n"),
                S("GET / HTTP/1.1\r\n"),
                S("\x80\x2e\x01\x03\x01"),
                S("\0"),
                S("\x15\3\1\0\2\1\0"),
                S("\x17\3\3"),
                S("\x16\2"),
                S("\x16GET"),
        };
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
                eq_int(client_hello_read(others[i]).kind, CLIENT_HELLO_NOT_TLS);
        eq_int(client_hello_read(S("")).kind, CLIENT_HELLO_MORE);
        eq_int(client_hello_read(S("\x16")).kind, CLIENT_HELLO_MORE);
        eq_int(client_hello_read(S("\x16\3")).kind, CLIENT_HELLO_MORE);
}

TEST(what_could_be_read_in_two_ways_is_broken)
{
        _buf_ struct buf twice = BUF_INIT(1000), pair = BUF_INIT(1000);
        server_name(&twice, S("a.test"));
        server_name(&twice, S("b.test"));
        eq_int(kind_of(buf_slice(&twice)), CLIENT_HELLO_BROKEN);
        extension(&pair, 0, S("\0\x0a\0\0\2aa\0\0\2bb"));
        eq_int(kind_of(buf_slice(&pair)), CLIENT_HELLO_BROKEN);

        static const struct slice names[] = { S(""),     S("a b"),        S("a\0.test"),     S("*.test"),
                                              S("a..b"), S("a.test:443"), S("\xc3\xbc.test") };
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                _buf_ struct buf extensions = BUF_INIT(1000);
                server_name(&extensions, names[i]);
                eq_int(kind_of(buf_slice(&extensions)), CLIENT_HELLO_BROKEN);
        }
        static const struct slice broken[] = {
                S("\0"),
                S("\0\0\0"),
                S("\0\0\0\0"),
                S("\0\0\0\2\0\0"),
                S("\0\0\0\4\0\2\0\0"),
                S("\0\x0a\0\5\0\2\0\x17"),
                S("\0\0\0\5\1\0\2aa"),
                S("\0\0\0\7\0\5\1\0\2aa"),
                S("\0\0\0\7\0\4\0\0\2aa"),
        };
        for (size_t i = 0; i < ARRAY_LEN(broken); i++)
                eq_int(kind_of(broken[i]), CLIENT_HELLO_BROKEN);
}

TEST(strange_records_are_broken)
{
        static const struct slice records[] = {
                S("\x16\3\1\0\0"),                     /* empty */
                S("\x16\3\1\x40\1"),                   /* longer than a record can be */
                S("\x16\3\1\0\4\2\0\0\0"),             /* a ServerHello */
                S("\x16\3\1\0\4\1\0\0\0"),             /* a hello of no bytes */
                S("\x16\3\1\0\4\1\0\x7f\0"),           /* too long */
                S("\x16\3\1\0\2\1\0\x15\3\1\0\2\1\0"), /* an alert between its records */
                S("\x16\3\1\0\2\1\0\x16\2\1\0\1\0"),
        };
        for (size_t i = 0; i < ARRAY_LEN(records); i++)
                eq_int(client_hello_read(records[i]).kind, CLIENT_HELLO_BROKEN);
        /* Something behind the hello in its record. */
        _buf_ struct buf out = BUF_INIT(4000);
        hello(&out, (struct slice){ 0 }, 16384);
        out.p[4]++;
        eq_int(client_hello_read(buf_slice(&out)).kind, CLIENT_HELLO_BROKEN);
        eq_int(buf_append_char(&out, 0), 0);
        eq_int(client_hello_read(buf_slice(&out)).kind, CLIENT_HELLO_BROKEN);
}

TEST(a_hello_that_does_not_end_is_broken_at_the_limit)
{
        static char padding[14000];
        _buf_ struct buf extensions = BUF_INIT(70000), out = BUF_INIT(200000);
        extension(&extensions, 21, slice_from(padding, sizeof(padding)));
        hello(&out, buf_slice(&extensions), 16384);
        eq_int(client_hello_read(buf_slice(&out)).kind, CLIENT_HELLO_NAMELESS);
        buf_truncate(&out, 0);
        hello(&out, buf_slice(&extensions), 20); /* with the heads of records it is over the limit */
        eq_int(client_hello_read(slice_from(out.p, CLIENT_HELLO_MAX - 1)).kind, CLIENT_HELLO_MORE);
        eq_int(client_hello_read(slice_from(out.p, CLIENT_HELLO_MAX)).kind, CLIENT_HELLO_BROKEN);
        eq_int(client_hello_read(buf_slice(&out)).kind, CLIENT_HELLO_BROKEN);
}

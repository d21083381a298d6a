/* netmsg_test: messages are read back as they were written; messages that are cut, too long or invalid are not accepted. */
#include "base/limits.h"
#include "base/mem.h"
#include "unit.h"
#include "wire/netmsg.h"

#include <errno.h>

static struct http_header two_headers[] = {
        { .name = S("accept"), .value = S("*/*") },
        { .name = S("x-empty"), .value = S("") },
};

static const struct netmsg_request request = {
        .method = S("POST"),
        .url = S("http://h/p"),
        .follows = true,
        .timeout_ms = 1234567890123,
        .body_bytes = 5,
        .credit = 4096,
        .headers = two_headers,
        .header_count = 2,
        .private_names = S("x-empty,x-key"),
};

/* Writes one message of each type, one after the other. */
static void write_all(struct buf *out)
{
        struct netmsg_head head = { .status = 404, .headers = two_headers, .header_count = 2 };
        struct netmsg_end end = { .outcome = NETMSG_FAILED, .text = S("why") };
        eq_int(netmsg_request_write(out, 7, &request), 0);
        eq_int(netmsg_bytes_write(out, NETMSG_BODY, 7, S("hello")), 0);
        eq_int(netmsg_credit_write(out, 7, 99), 0);
        eq_int(netmsg_cancel_write(out, 7), 0);
        eq_int(netmsg_head_write(out, 0xfffffffe, &head), 0);
        eq_int(netmsg_bytes_write(out, NETMSG_DATA, 8, S("\0\1\2")), 0);
        eq_int(netmsg_end_write(out, 9, &end), 0);
        eq_int(netmsg_ping_write(out), 0);
        eq_int(netmsg_pong_write(out), 0);
}

static struct netmsg next(struct slice *rest)
{
        struct netmsg m = { 0 };
        ssize_t n = netmsg_next(*rest, &m);
        ok(n > 0);
        *rest = slice_from(rest->p + n, rest->n - (size_t)n);
        return m;
}

TEST(every_message_is_read_back_as_it_was_written)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(MIB);
        write_all(&out);
        struct slice rest = buf_slice(&out);

        struct netmsg m = next(&rest);
        struct netmsg_request r;
        eq_int(m.type, NETMSG_REQUEST);
        eq_int(m.id, 7);
        eq_int(netmsg_request_decode(&a, m.payload, &r), 0);
        eq_slice(r.method, request.method);
        eq_slice(r.url, request.url);
        ok(r.follows);
        eq_u64(r.timeout_ms, request.timeout_ms);
        eq_u64(r.body_bytes, 5);
        eq_int(r.credit, 4096);
        eq_int(r.header_count, 2);
        eq_slice(r.headers[1].name, S("x-empty"));
        eq_slice(r.headers[1].value, S(""));
        eq_slice(r.private_names, S("x-empty,x-key"));

        m = next(&rest);
        eq_int(m.type, NETMSG_BODY);
        eq_slice(m.payload, S("hello"));
        uint32_t credit;
        eq_int(netmsg_credit_decode(next(&rest).payload, &credit), 0);
        eq_int(credit, 99);
        eq_int(next(&rest).type, NETMSG_CANCEL);

        struct netmsg_head head;
        m = next(&rest);
        eq_int(m.id, 0xfffffffe);
        eq_int(netmsg_head_decode(&a, m.payload, &head), 0);
        eq_int(head.status, 404);
        eq_slice(head.headers[0].value, S("*/*"));
        eq_slice(next(&rest).payload, S("\0\1\2"));
        struct netmsg_end end;
        eq_int(netmsg_end_decode(next(&rest).payload, &end), 0);
        eq_int(end.outcome, NETMSG_FAILED);
        eq_slice(end.text, S("why"));
        eq_int(next(&rest).type, NETMSG_PING);
        eq_int(next(&rest).type, NETMSG_PONG);
        eq_int(rest.n, 0);
}

/* Each beginning of a message is copied into memory of its own length, so that a sanitizer sees a read behind its end. */
TEST(a_message_that_is_cut_anywhere_asks_for_more)
{
        _buf_ struct buf out = BUF_INIT(MIB);
        eq_int(netmsg_request_write(&out, 1, &request), 0);
        for (size_t n = 0; n < out.n; n++) {
                _free_ char *copy = mem_alloc(MAX(n, (size_t)1));
                memcpy(copy, out.p, n);
                struct netmsg m;
                eq_int(netmsg_next(slice_from(copy, n), &m), 0);
        }
}

TEST(a_payload_that_is_cut_or_has_more_behind_it_is_broken)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(MIB);
        struct netmsg_head head = { .status = 200, .headers = two_headers, .header_count = 2 };
        struct netmsg m;
        struct netmsg_request r;
        struct netmsg_head h;
        eq_int(netmsg_request_write(&out, 1, &request), 0);
        ok(netmsg_next(buf_slice(&out), &m) > 0);
        for (size_t n = 0; n < m.payload.n; n++)
                eq_int(netmsg_request_decode(&a, slice_from(m.payload.p, n), &r), -EPROTO);
        eq_int(buf_append_char(&out, 0), 0);
        eq_int(netmsg_request_decode(&a, slice_from(out.p + NETMSG_HEAD_BYTES, out.n - NETMSG_HEAD_BYTES),
                                     &r),
               -EPROTO);

        buf_truncate(&out, 0);
        eq_int(netmsg_head_write(&out, 1, &head), 0);
        ok(netmsg_next(buf_slice(&out), &m) > 0);
        for (size_t n = 0; n < m.payload.n; n++)
                eq_int(netmsg_head_decode(&a, slice_from(m.payload.p, n), &h), -EPROTO);
}

TEST(a_head_with_a_wrong_field_is_refused)
{
        /* length, type, version, zero, id */
        static const struct slice heads[] = {
                S("\0\0\0\0\4\1\0\0\1\0\0\0"),         /* another version */
                S("\0\0\0\0\0\2\0\0\1\0\0\0"),         /* no such type */
                S("\0\0\0\0\x45\2\0\0\1\0\0\0"),       /* no such type */
                S("\0\0\0\0\4\2\1\0\1\0\0\0"),         /* the field that must be zero is 1 */
                S("\1\0\x0c\0\1\2\0\0\1\0\0\0"),       /* the payload is one byte over the limit */
                S("\xff\xff\xff\xff\1\2\0\0\1\0\0\0"), /* the largest length that fits the field */
                S("\0\0\0\0\2\2\0\0\1\0\0\0"),         /* BODY without a byte */
                S("\1\0\1\0\x42\2\0\0\1\0\0\0"),       /* DATA of 64 KiB and one byte */
                S("\1\0\0\0\4\2\0\0\1\0\0\0"),         /* CANCEL with a payload */
                S("\1\0\0\0\5\2\0\0\0\0\0\0"),         /* PING with a payload */
                S("\1\0\0\0\x44\2\0\0\0\0\0\0"),       /* PONG with a payload */
                S("\0\0\0\0\5\2\0\0\1\0\0\0"),         /* PING with an id */
                S("\0\0\0\0\x44\2\0\0\1\0\0\0"),       /* PONG with an id */
        };
        struct netmsg m;
        for (size_t i = 0; i < ARRAY_LEN(heads); i++)
                eq_int(netmsg_next(heads[i], &m), -EPROTO);
}

TEST(a_count_of_headers_beyond_the_message_is_broken)
{
        _arena_ struct arena a = ARENA_INIT;
        struct netmsg_head h;
        eq_int(netmsg_head_decode(&a, S("\xc8\0\xff\xff\xff\xff"), &h), -EPROTO);
        eq_int(netmsg_head_decode(&a, S("\xc8\0\1\0\0\0\0\0\0\0\xff\xff\xff\xff"), &h), -EPROTO);
        eq_int(netmsg_head_decode(&a, S("\xc8\0\0\0\0\0"), &h), 0);
        eq_int(netmsg_head_decode(&a, S("\x63\0\0\0\0\0"), &h), -EPROTO); /* status 99 */
}

TEST(fields_out_of_range_are_broken)
{
        uint32_t credit;
        struct netmsg_end end;
        eq_int(netmsg_credit_decode(S("\0\0\0\0"), &credit), -EPROTO);
        eq_int(netmsg_credit_decode(S("\1\0\0"), &credit), -EPROTO);
        eq_int(netmsg_end_decode(S("\2\0\0\0\0"), &end), -EPROTO);
        eq_int(netmsg_end_decode(S("\0\0\0\0\0"), &end), 0);
}

TEST(what_the_other_end_would_refuse_is_not_written)
{
        _buf_ struct buf out = BUF_INIT(4 * MIB), small = BUF_INIT(20);
        _free_ char *big = mem_zalloc(NETMSG_PAYLOAD_MAX + 1);
        struct http_header h = { .name = S("x"), .value = slice_from(big, NETMSG_PAYLOAD_MAX) };
        struct netmsg_head head = { .status = 200, .headers = &h, .header_count = 1 };
        eq_int(netmsg_head_write(&out, 1, &head), -EMSGSIZE);
        head.header_count = NETMSG_HEADERS_MAX + 1;
        eq_int(netmsg_head_write(&out, 1, &head), -EMSGSIZE);
        eq_int(out.n, 0);
        eq_int(netmsg_bytes_write(&small, NETMSG_DATA, 1, S("more than eight")), -ENOBUFS);
        eq_int(small.n, 0);
}

TEST(a_long_body_becomes_pieces)
{
        _buf_ struct buf out = BUF_INIT(MIB);
        _free_ char *body = mem_zalloc(NETMSG_PIECE_MAX + 3);
        eq_int(netmsg_bytes_write(&out, NETMSG_DATA, 1, slice_from(body, NETMSG_PIECE_MAX + 3)), 0);
        struct slice rest = buf_slice(&out);
        eq_int(next(&rest).payload.n, NETMSG_PIECE_MAX);
        eq_int(next(&rest).payload.n, 3);
        eq_int(rest.n, 0);
}

/* dns_test: questions are read strictly, and answers are as resolvers expect them. */
#include "base/mem.h"
#include "egress/dns.h"
#include "unit.h"

#include <errno.h>

#define HEAD "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEAD_EDNS "\x12\x34\x01\x20\x00\x01\x00\x00\x00\x00\x00\x01"
#define NAME "\3WWW\6a-test\3Org\0"
#define A "\0\1\0\1"
#define OPT "\0\0\x29\4\xd0\0\0\0\0\0\0"

TEST(a_question_is_read)
{
        struct dns_question q;
        eq_int(dns_question_read(S(HEAD NAME A), &q), DNS_NOERROR);
        eq_int(q.id, 0x1234);
        ok(q.wants_recursion && !q.has_edns && q.is_host);
        eq_int(q.type, DNS_TYPE_A);
        eq_str(q.name, "www.a-test.org");
        eq_int(q.name_n, 14);
        eq_slice(q.bytes, S(NAME A));
        eq_int(dns_question_read(S(HEAD_EDNS NAME A OPT), &q), DNS_NOERROR);
        ok(q.has_edns);
        /* with a cookie */
        eq_int(dns_question_read(S(HEAD_EDNS NAME A "\0\0\x29\4\xd0\0\0\0\0\0\x0c\0\x0a\0\x08"
                                                    "12345678"),
                                 &q),
               DNS_NOERROR);
        ok(q.has_edns);
}

TEST(names_that_are_no_hosts_are_told_apart)
{
        static const struct slice messages[] = {
                S(HEAD "\0" A), /* the root */
                S(HEAD "\3a b\0" A), S(HEAD "\3a.b\0" A),      S(HEAD "\1*\1a\0" A),
                S(HEAD "\2a\0\0" A), S(HEAD "\2\xc3\xbc\0" A),
        };
        for (size_t i = 0; i < ARRAY_LEN(messages); i++) {
                struct dns_question q;
                eq_int(dns_question_read(messages[i], &q), DNS_NOERROR);
                ok(!q.is_host);
                eq_str(q.name, "");
        }
}

TEST(what_is_no_question_gets_the_answer_that_it_deserves)
{
        static const struct {
                struct slice message;
                int expected;
        } rows[] = {
                { S(""), -EPROTO },
                { S("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00"), -EPROTO },
                { S("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A), -EPROTO },     /* an answer */
                { S("\x12\x34\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A), DNS_NOTIMP },  /* an update */
                { S("\x12\x34\x03\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A), DNS_FORMERR }, /* cut */
                { S("\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), DNS_FORMERR }, /* no question */
                { S("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" NAME A NAME A), DNS_FORMERR },
                { S("\x12\x34\x01\x00\x00\x01\x00\x01\x00\x00\x00\x00" NAME A), DNS_FORMERR },
                { S("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x01\x00\x00" NAME A), DNS_FORMERR },
                { S("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x02" NAME A OPT OPT), DNS_FORMERR },
                { S(HEAD NAME A "x"), DNS_FORMERR },
                { S(HEAD "\xc0\x0c" A), DNS_FORMERR }, /* a pointer, to itself */
                { S(HEAD "\1a\xc0\x0c" A), DNS_FORMERR },
                { S(HEAD "\x40"
                         "a\0" A),
                  DNS_FORMERR }, /* a kind of label that never became a standard */
                { S(HEAD_EDNS NAME A), DNS_FORMERR },
                { S(HEAD_EDNS NAME A "\0\0\x29\4\xd0\0\0\0\0\0\1"), DNS_FORMERR },
                { S(HEAD_EDNS NAME A "\0\0\x29\4\xd0\0\0\0\0\0\4\0\1\0\1"), DNS_FORMERR },
                { S(HEAD_EDNS NAME A "\0\0\1\0\1\0\0\0\0\0\0"), DNS_FORMERR }, /* another record */
                { S(HEAD_EDNS NAME A "\0\0\x29\4\xd0\0\1\0\0\0\0"), DNS_BADVERS },
                { S(HEAD NAME "\0\1\0\3"), DNS_NOTIMP },    /* class CH */
                { S(HEAD NAME "\0\xfc\0\1"), DNS_NOTIMP },  /* AXFR */
                { S(HEAD NAME "\0\x1c\0\1"), DNS_NOERROR }, /* AAAA */
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct dns_question q;
                eq_int(dns_question_read(rows[i].message, &q), rows[i].expected);
        }
}

/* Each beginning is copied into memory of its own length, so that a sanitizer sees a read behind its end. */
TEST(a_question_that_is_cut_anywhere_is_malformed)
{
        static const struct slice whole = S(HEAD_EDNS NAME A OPT);
        for (size_t n = 0; n < whole.n; n++) {
                _free_ char *copy = mem_alloc(MAX(n, (size_t)1));
                memcpy(copy, whole.p, n);
                struct dns_question q;
                eq_int(dns_question_read(slice_from(copy, n), &q), n < 12 ? -EPROTO : DNS_FORMERR);
        }
}

TEST(the_longest_name_is_read_and_a_longer_one_is_malformed)
{
        for (size_t last = 61; last <= 62; last++) {
                _buf_ struct buf m = BUF_INIT(DNS_MESSAGE_MAX), out = BUF_INIT(2 * DNS_MESSAGE_MAX);
                eq_int(buf_append(&m, S(HEAD_EDNS)), 0);
                for (size_t i = 0; i < 4; i++) {
                        size_t n = i < 3 ? 63 : last;
                        eq_int(buf_append_char(&m, (char)n), 0);
                        for (size_t k = 0; k < n; k++)
                                eq_int(buf_append_char(&m, 'a'), 0);
                }
                eq_int(buf_append(&m, S("\0" A OPT)), 0);
                struct dns_question q;
                eq_int(dns_question_read(buf_slice(&m), &q), last == 61 ? DNS_NOERROR : DNS_FORMERR);
                eq_int(q.name_n, last == 61 ? DNS_NAME_MAX : 0);
                eq_int(dns_address_write(&out, &q, (const uint8_t[]){ 1, 2, 3, 4 }, 5, false), 0);
                ok(out.n <= DNS_MESSAGE_MAX);
        }
}

TEST(answers_are_written)
{
        _buf_ struct buf out = BUF_INIT(2000);
        struct dns_question q;
        static const uint8_t address[] = { 198, 18, 0, 7 };
        eq_int(dns_question_read(S(HEAD NAME A), &q), 0);
        eq_int(dns_address_write(&out, &q, address, 0x01020304, false), 0);
        eq_slice(buf_slice(&out), S("\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" NAME A
                                    "\xc0\x0c\0\1\0\1\1\2\3\4\0\4\xc6\x12\0\7"));
        buf_truncate(&out, 0);
        eq_int(dns_answer_write(&out, &q, DNS_NXDOMAIN, true), 0);
        eq_slice(buf_slice(&out), S("\0\x20\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00" NAME A));
        buf_truncate(&out, 0);
        eq_int(dns_question_read(S(HEAD_EDNS NAME "\0\x1c\0\1" OPT), &q), 0);
        eq_int(dns_answer_write(&out, &q, DNS_NOERROR, false), 0);
        eq_slice(buf_slice(&out), S("\x12\x34\x81\x80\x00\x01\x00\x00\x00\x00\x00\x01" NAME
                                    "\0\x1c\0\1\0\0\x29\2\0\0\0\0\0\0\0"));
        buf_truncate(&out, 0);
        eq_int(dns_question_read(S(HEAD_EDNS NAME A "\0\0\x29\4\xd0\0\1\0\0\0\0"), &q), DNS_BADVERS);
        eq_int(dns_answer_write(&out, &q, DNS_BADVERS, false), 0);
        eq_slice(buf_slice(&out),
                 S("\x12\x34\x81\x80\x00\x01\x00\x00\x00\x00\x00\x01" NAME A "\0\0\x29\2\0\1\0\0\0\0\0"));
        /* What could not be read is not repeated. */
        buf_truncate(&out, 0);
        eq_int(dns_question_read(S("\x12\x34\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A), &q),
               DNS_NOTIMP);
        eq_int(dns_answer_write(&out, &q, DNS_NOTIMP, false), 0);
        eq_slice(buf_slice(&out), S("\x12\x34\xa8\x84\x00\x00\x00\x00\x00\x00\x00\x00"));
        _buf_ struct buf small = BUF_INIT(10);
        eq_int(dns_answer_write(&small, &q, DNS_NOTIMP, false), -ENOBUFS);
}

TEST(messages_of_a_stream_have_their_length_in_front)
{
        static const struct slice whole = S("\0\x20" HEAD NAME A "next");
        struct slice m;
        for (size_t n = 0; n < 0x22; n++)
                eq_int(dns_frame(slice_from(whole.p, n), &m), 0);
        eq_int(dns_frame(whole, &m), 0x22);
        eq_slice(m, S(HEAD NAME A));
        eq_int(dns_frame(S("\0\x0b"), &m), -EPROTO);
        eq_int(dns_frame(S("\2\1"), &m), -EPROTO);
        eq_int(dns_frame(S("\2\0"), &m), 0);
}

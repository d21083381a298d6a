/* socks_test: messages of SOCKS5, whole and cut off anywhere. */
#include "egress/socks.h"

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>

TEST(a_hello_offers_ways_to_authenticate)
{
        bool is_welcome = false;
        eq_int(socks_hello_read(S("\x05\x02\x01\x00"), &is_welcome), 4);
        ok(is_welcome);
        eq_int(socks_hello_read(S("\x05\x01\x02"), &is_welcome), 3);
        ok(!is_welcome);
        eq_int(socks_hello_read(S("\x05\x02\x01"), &is_welcome), 0);
        eq_int(socks_hello_read(S(""), &is_welcome), 0);
        eq_int(socks_hello_read(S("\x04\x01"), &is_welcome), -EBADMSG);
}

static void reads(struct slice whole, const char *host, uint16_t port)
{
        struct socks_request r;
        for (size_t n = 0; n < whole.n; n++)
                eq_int(socks_request_read(slice_from(whole.p, n), &r), 0);
        eq_int(socks_request_read(whole, &r), whole.n);
        eq_slice(r.host, slice_from_str(host));
        eq_int(r.port, port);
        eq_int(r.command, SOCKS_CONNECT);
}

TEST(a_request_names_a_host_in_one_of_three_ways)
{
        reads(S("\x05\x01\x00\x01\x7f\x00\x00\x01\x01\xbb"), "127.0.0.1", 443);
        reads(S("\x05\x01\x00\x03\x06"
                "a.test\x00\x50"),
              "a.test", 80);
        reads(S("\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50"), "::1", 80);
}

TEST(what_is_no_request_is_refused)
{
        struct socks_request r;
        eq_int(socks_request_read(S("\x04"), &r), -EBADMSG);
        eq_int(socks_request_read(S("\x05\x01\x01"), &r), -EBADMSG);
        eq_int(socks_request_read(S("\x05\x01\x00\x02\x00"), &r), -EAFNOSUPPORT);
        eq_int(socks_request_read(S("\x05\x01\x00\x03\x00\x00\x50"), &r), -EBADMSG);
}

TEST(a_reply_tells_our_end_of_the_connection)
{
        char out[SOCKS_REPLY_MAX];
        struct sockaddr_storage a = { 0 };
        struct sockaddr_in *in4 = (void *)&a;
        in4->sin_family = AF_INET;
        in4->sin_port = htons(258);
        in4->sin_addr.s_addr = htonl(0x7f000001);
        eq_slice(slice_from(out, socks_reply_write(out, SOCKS_DONE, &a)),
                 S("\x05\x00\x00\x01\x7f\x00\x00\x01\x01\x02"));
        eq_slice(slice_from(out, socks_reply_write(out, SOCKS_NOT_ALLOWED, NULL)),
                 S("\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"));
        a.ss_family = AF_INET6;
        eq_int(socks_reply_write(out, SOCKS_DONE, &a), 22);
}

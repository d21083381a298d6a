/* upgrade_test: the request as it is sent, and answers that are whole, cut off or wrong. */
#include "transport/upgrade.h"

#include "unit.h"

#include <errno.h>

/* The key and its answer are the example of RFC 6455, 1.3. */
#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define UPGRADE "Upgrade: websocket\r\n"
#define CONNECTION "Connection: keep-alive, Upgrade\r\n"
#define GOOD "HTTP/1.1 101 Switching Protocols\r\n" UPGRADE CONNECTION ACCEPT "\r\n"

static ssize_t answer(struct slice in, bool at_end)
{
        struct err err = ERR_INIT;
        return upgrade_answer(in, at_end, KEY, &err);
}

TEST(a_request_names_host_path_and_token)
{
        _buf_ struct buf out = BUF_INIT(4096);
        char host[] = "::1", path[] = "/a?b", socket[] = "/run/socket";
        struct endpoint e = { .kind = ENDPOINT_TCP, .host = host, .port = 8765, .path = path };
        eq_int(upgrade_request(&out, &e, KEY, "secret"), 0);
        eq_slice(buf_slice(&out),
                 S("GET /a?b HTTP/1.1\r\nHost: [::1]:8765\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " KEY
                   "\r\nAuthorization: Bearer secret\r\n\r\n"));
        buf_truncate(&out, 0);
        e = (struct endpoint){ .kind = ENDPOINT_UNIX, .path = socket };
        eq_int(upgrade_request(&out, &e, KEY, NULL), 0);
        ok(slice_starts(buf_slice(&out), S("GET / HTTP/1.1\r\nHost: localhost\r\n")));
}

TEST(keys_are_fresh)
{
        char one[UPGRADE_KEY_BYTES], other[UPGRADE_KEY_BYTES];
        upgrade_key(one);
        upgrade_key(other);
        eq_u64(strlen(one), UPGRADE_KEY_BYTES - 1);
        ok(strcmp(one, other) != 0);
}

TEST(a_good_answer_is_taken_when_it_is_whole)
{
        struct slice good = S(GOOD "\x81\x02hi");
        for (size_t n = 0; n <= good.n; n++)
                eq_int(answer(slice_from(good.p, n), false), n < strlen(GOOD) ? 0 : (ssize_t)strlen(GOOD));
        for (size_t n = 0; n < strlen(GOOD); n++)
                eq_int(answer(slice_from(good.p, n), true), -ECONNRESET);
}

TEST(names_of_headers_have_no_case_and_lines_may_end_in_lf)
{
        static const char text[] = "HTTP/1.0 101\nUPGRADE: WebSocket\nconnection:upgrade\n"
                                   "sec-websocket-accept:s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\n\n";
        eq_int(answer(slice_from_str(text), false), (ssize_t)strlen(text));
}

TEST(wrong_answers_are_refused)
{
        static const struct {
                const char *text;
                int code;
        } cases[] = {
                { "HTTP/1.1 101 x\r\n" CONNECTION ACCEPT "\r\n", -EPROTO },
                { "HTTP/1.1 101 x\r\n" UPGRADE ACCEPT "\r\n", -EPROTO },
                { "HTTP/1.1 101 x\r\n" UPGRADE CONNECTION "\r\n", -EPROTO },
                { "HTTP/1.1 101 x\r\n" UPGRADE CONNECTION
                  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOO=\r\n\r\n",
                  -EPROTO },
                { "HTTP/1.1 101 x\r\n" UPGRADE CONNECTION ACCEPT
                  "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
                  -EPROTO },
                { "HTTP/1.1 101 x\r\n\r\n" UPGRADE CONNECTION ACCEPT "\r\n",
                  -EPROTO }, /* these lines are behind the head */
                { "HTTP/2 101 x\r\n\r\n", -EPROTO },
                { "HTTP/1.1 1010\r\n\r\n", -EPROTO },
                { "HTTP/1.1 +01 x\r\n\r\n", -EPROTO },
                { "SSH-2.0-OpenSSH_9.2\r\n\r\n", -EPROTO },
                { "\r\n\r\n", -EPROTO },
                { "HTTP/1.1 401 x\r\n\r\nno token", -EACCES },
                { "HTTP/1.1 403 x\r\n\r\nno", -EACCES },
                { "HTTP/1.1 503 x\r\n\r\nlater", -EPROTO },
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                eq_int(answer(slice_from_str(cases[i].text), false), cases[i].code);
}

TEST(a_refusal_tells_what_the_server_said)
{
        struct err err = ERR_INIT;
        eq_int(upgrade_answer(S("HTTP/1.1 401 x\r\n\r\nno token\nand more"), false, KEY, &err), -EACCES);
        eq_str(err.text, "the server answered 401: no token");
}

TEST(a_refusal_without_a_body_is_not_awaited)
{
        struct slice refusal = S("HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n");
        eq_int(answer(refusal, false), -EPROTO);
        eq_int(answer(S("HTTP/1.1 404 x\r\nContent-Length: 5\r\n\r\n"), false), 0);
        eq_int(answer(S("HTTP/1.1 404 x\r\nContent-Length: 5\r\n\r\n"), true), -EPROTO);
}

TEST(a_head_without_end_is_given_up)
{
        static char text[16384];
        memset(text, 'x', sizeof(text));
        eq_int(answer(slice_from(text, sizeof(text) - 1), false), 0);
        eq_int(answer(slice_from(text, sizeof(text)), false), -EPROTO);
}

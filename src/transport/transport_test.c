/* transport_test: messages over a socket pair; the test holds the server's end. They are split and cut at every byte, and there are
 * control frames and wrong lengths. */
#include "transport/transport.h"

#include "base/fd.h"
#include "unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct link {
        struct transport t;
        int server;
        bool is_over;
        struct buf log;
};

static void link_open(struct link *l, bool is_lines)
{
        char host[] = "h", path[] = "/";
        struct endpoint e = { .kind = ENDPOINT_TLS, .host = host, .port = 1, .path = path };
        int pair[2];
        *l = (struct link){ .log = BUF_INIT(1 << 20) };
        ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        l->server = pair[1];
        transport_init(&l->t);
        if (is_lines)
                transport_open_child(&l->t, pair[0], 0);
        else
                transport_open_tls(&l->t, &e, NULL, pair[0], 0);
}

static void link_close(struct link *l)
{
        transport_close(&l->t, 0);
        fd_close(l->server);
        buf_release(&l->log);
}

static void say(struct link *l, struct slice bytes)
{
        if (bytes.n > 0)
                eq_int(send(l->server, bytes.p, bytes.n, MSG_NOSIGNAL), (ssize_t)bytes.n);
}

/* Takes all messages that have come. Notes each message as <text>, and the loss of the connection as the text of its error. */
static void take(struct link *l)
{
        struct err err = ERR_INIT;
        struct slice text;
        int r = l->is_over ? -1 : transport_on_ready(&l->t, &err);
        if (l->is_over)
                return;
        while (r == 0 && (r = transport_next(&l->t, &text, &err)) > 0) {
                ok(buf_printf(&l->log, "<%.*s>", SLICE(text)) == 0);
                r = 0;
        }
        if (r < 0) {
                ok(buf_printf(&l->log, "%s", err.text) == 0);
                l->is_over = true;
        }
}

/* Answers the HTTP request of the client, so that the WebSocket begins. */
static void agree(struct link *l)
{
        char accept[29], request[1024];
        _buf_ struct buf answer = BUF_INIT(1024);
        struct err err = ERR_INIT;
        eq_int(transport_flush(&l->t, &err), 0);
        ok(recv(l->server, request, sizeof(request), 0) > 0);
        ws_accept(slice_from_str(l->t.key), accept);
        ok(buf_printf(&answer,
                      "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
                      "%s\r\n\r\n",
                      accept) == 0);
        say(l, buf_slice(&answer));
        take(l);
        eq_int(l->t.state, TRANSPORT_OPEN);
}

static void ws_open(struct link *l)
{
        link_open(l, false);
        agree(l);
}

/* Sends `stream` cut in two at each byte, and as a whole; the result must be the same each time. */
static void check_splits(bool is_lines, struct slice stream, const char *want)
{
        for (size_t n = 0; n <= stream.n; n++) {
                struct link l;
                if (is_lines)
                        link_open(&l, true);
                else
                        ws_open(&l);
                say(&l, slice_from(stream.p, n));
                take(&l);
                say(&l, slice_from(stream.p + n, stream.n - n));
                take(&l);
                eq_slice(buf_slice(&l.log), slice_from_str(want));
                link_close(&l);
        }
}

/* Checks that a stream that ends too early gives the first messages of the whole stream, and then the loss of the connection. */
static void check_truncations(bool is_lines, struct slice stream, const char *want)
{
        struct slice loss = S("the connection was lost: Connection reset by peer");
        for (size_t n = 0; n < stream.n; n++) {
                struct link l;
                if (is_lines)
                        link_open(&l, true);
                else
                        ws_open(&l);
                say(&l, slice_from(stream.p, n));
                ok(shutdown(l.server, SHUT_WR) == 0);
                take(&l);
                take(&l);
                struct slice got = buf_slice(&l.log);
                ok(l.is_over && got.n >= loss.n);
                got.n -= loss.n;
                eq_slice(slice_from(got.p + got.n, loss.n), loss);
                ok(is_lines || slice_starts(slice_from_str(want), got));
                link_close(&l);
        }
}

TEST(messages_in_frames)
{
        struct slice stream = S("\x81\x03one"
                                "\x01\x01t\x00\x01w\x80\x01o" /* one message in three pieces */
                                "\x81\x00"
                                "\x82\x05three");
        check_splits(false, stream, "<one><two><><three>");
        check_truncations(false, stream, "<one><two><><three>");
}

TEST(messages_in_lines)
{
        struct slice stream = S("one\n\r\n\ntwo\r\nthree\n");
        check_splits(true, stream, "<one><two><three>");
        check_truncations(true, stream, "<one><two><three>");
}

TEST(the_last_line_needs_no_end)
{
        struct link l;
        link_open(&l, true);
        say(&l, S("one\ntwo"));
        ok(shutdown(l.server, SHUT_WR) == 0);
        take(&l);
        take(&l);
        eq_slice(buf_slice(&l.log), S("<one><two>the connection was lost: Connection reset by peer"));
        link_close(&l);
}

TEST(control_frames_between_the_pieces_of_a_message)
{
        check_splits(false, S("\x01\x01t\x89\x02hi\x8a\x00\x80\x02wo"), "<two>");
}

TEST(a_ping_is_answered_with_its_payload)
{
        struct link l;
        struct err err = ERR_INIT;
        char pong[64];
        ws_open(&l);
        say(&l, S("\x89\x02hi"));
        take(&l);
        eq_int(transport_flush(&l.t, &err), 0);
        eq_int(recv(l.server, pong, sizeof(pong), 0), 2 + 4 + 2);
        eq_int((unsigned char)pong[0], 0x8a);
        eq_int((unsigned char)pong[1], 0x82); /* the payload is masked and has two bytes */
        eq_int(pong[6] ^ pong[2], 'h');
        eq_int(pong[7] ^ pong[3], 'i');
        link_close(&l);
}

TEST(pings_of_a_server_that_does_not_read_fill_no_memory)
{
        struct link l;
        char pings[127 * 400];
        ws_open(&l);
        for (size_t i = 0; i < sizeof(pings); i += 127) {
                memset(pings + i, 'x', 127);
                pings[i] = (char)0x89;
                pings[i + 1] = 125;
        }
        for (int i = 0; i < 40; i++) {
                say(&l, slice_from(pings, sizeof(pings)));
                struct slice text;
                struct err err = ERR_INIT;
                char room[65536];
                ssize_t n;
                /* This test calls transport_next without transport_on_ready, which would also send. */
                buf_truncate(&l.t.in, 0);
                l.t.in_at = 0;
                while ((n = recv(l.t.fd, room, sizeof(room), MSG_DONTWAIT)) > 0)
                        ok(buf_append(&l.t.in, slice_from(room, (size_t)n)) == 0);
                eq_int(transport_next(&l.t, &text, &err), 0);
        }
        ok(transport_queued(&l.t) > 0 && transport_queued(&l.t) < 150000);
        link_close(&l);
}

TEST(a_close_frame_ends_the_connection_and_says_why)
{
        static const struct {
                struct slice frame;
                const char *want;
                int code;
        } cases[] = {
                { { "\x88\x02\x03\xe8", 4 }, "the server closed the connection (1000)", -ECONNRESET },
                { { "\x88\x02\x0f\xa1", 4 }, "another connection has taken the session over", -ESTALE },
                { { "\x88\x01\x03", 3 }, "the server sent a broken frame (1002)", -EPROTO },
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct link l;
                struct err err = ERR_INIT;
                struct slice text;
                ws_open(&l);
                say(&l, cases[i].frame);
                eq_int(transport_on_ready(&l.t, &err), 0);
                eq_int(transport_next(&l.t, &text, &err), cases[i].code);
                eq_str(err.text, cases[i].want);
                link_close(&l);
        }
}

TEST(broken_frames_end_the_connection)
{
        static const char *const frames[] = {
                "\x83\x01x",     /* an unknown opcode */
                "\xc1\x01x",     /* a reserved bit */
                "\x81\x81xxxxx", /* a server must not mask */
                "\x80\x01x",     /* the continuation of nothing */
                "\x09\x01x",     /* a ping in pieces */
                "\x81\x01\xff",  /* not UTF-8 */
        };
        for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
                struct link l;
                ws_open(&l);
                say(&l, slice_from_str(frames[i]));
                take(&l);
                ok(l.is_over && slice_starts(buf_slice(&l.log), S("the server sent a broken frame (")));
                link_close(&l);
        }
}

TEST(a_message_that_is_too_long_is_refused_by_its_head)
{
        struct link l;
        ws_open(&l);
        say(&l, S("\x81\x7f\0\0\0\0\x04\0\0\x01")); /* the length is 64 MiB and one byte */
        take(&l);
        eq_slice(buf_slice(&l.log), S("the server sent a broken frame (1009)"));
        link_close(&l);
}

TEST(a_line_that_is_too_long_is_refused)
{
        static char piece[65536];
        struct link l;
        link_open(&l, true);
        memset(piece, 'x', sizeof(piece));
        for (size_t n = 0; n <= TRANSPORT_MESSAGE_MAX && !l.is_over; n += sizeof(piece)) {
                say(&l, slice_from(piece, sizeof(piece)));
                take(&l);
        }
        eq_slice(buf_slice(&l.log), S("a message of the server is longer than 67108864 bytes"));
        link_close(&l);
}

TEST(what_is_sent_can_be_read)
{
        struct link l;
        struct err err = ERR_INIT;
        char got[64];
        link_open(&l, true);
        transport_send(&l.t, S("{}"));
        transport_ping(&l.t);
        eq_u64(transport_queued(&l.t), 3);
        eq_int(transport_flush(&l.t, &err), 0);
        eq_u64(transport_queued(&l.t), 0);
        eq_int(recv(l.server, got, sizeof(got), 0), 3);
        ok(memcmp(got, "{}\n", 3) == 0);
        link_close(&l);
}

TEST(a_transport_that_was_closed_counts_its_descriptors)
{
        struct link l;
        link_open(&l, true);
        unsigned before = l.t.serial;
        transport_close(&l.t, 0);
        ok(l.t.serial != before && l.t.state == TRANSPORT_CLOSED);
        link_close(&l);
}

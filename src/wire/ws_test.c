/* ws_test: RFC 6455 conformance of the decoder, frame by frame and in every split.
 *
 * The tables follow the sections of the Autobahn test suite: 1 framing, 2 ping and pong, 3 reserved bits, 4
 * opcodes, 5 fragmentation, 6 UTF-8, 7 closing; what is special to our interface (pieces, limits, the client
 * side) comes after.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "unit.h"
#include "wire/ws.h"

#define MAX_MESSAGE (1u << 20)

#define FIN 0x80u

static const uint8_t test_key[4] = { 0x37, 0xfa, 0x21, 0x3d };

struct frame {
        unsigned b0;
        struct slice payload; /* p == NULL ends a list of frames */
};

/* Appends a masked frame whose first byte is `b0`, valid or not. */
static void frame_add(struct buf *b, unsigned b0, struct slice payload)
{
        char head[WS_HEAD_MAX + 4];
        size_t n = ws_head_write_masked(head, WS_BINARY, true, payload.n, test_key);
        unsigned key_at = 0;

        head[0] = (char)b0;
        eq_int(buf_append(b, slice_from(head, n)), 0);
        eq_int(buf_append(b, payload), 0);
        ws_mask(b->p + b->n - payload.n, payload.n, test_key, &key_at);
}

static void put(struct buf *out, const char *what, struct slice payload)
{
        eq_int(buf_printf(out, "%s'", what), 0);
        eq_int(buf_append(out, payload), 0);
        eq_int(buf_append(out, S("' ")), 0);
}

struct reader {
        struct ws_decoder d;
        struct buf *message; /* joined so far */
        bool in_message;
        bool failed;
};

static void piece_take(struct reader *r, const struct ws_piece *piece, struct buf *out)
{
        eq_int(piece->message_start, !r->in_message);
        r->in_message = !piece->message_end;
        eq_int(buf_append(r->message, piece->payload), 0);
        if (!piece->message_end)
                return;
        eq_u64(piece->frame_left, 0);
        ok(!piece->is_fragmented);
        put(out, piece->opcode == WS_TEXT ? "text" : "binary", buf_slice(r->message));
        buf_truncate(r->message, 0);
}

static void control_put(struct buf *out, const struct ws_piece *piece)
{
        struct slice payload = piece->payload;

        switch (piece->opcode) {
        case WS_PING:
                put(out, "ping", payload);
                break;
        case WS_PONG:
                put(out, "pong", payload);
                break;
        default:
                eq_int(piece->opcode, WS_CLOSE);
                eq_int(buf_printf(out, "%d", piece->close_code), 0);
                put(out, "close", payload.n < 2 ? payload : slice_from(payload.p + 2, payload.n - 2));
        }
}

/* Takes one event from the decoder. Returns false when the decoder wants more or has failed. */
static bool event_take(struct reader *r, char *in, size_t n, size_t *at, struct buf *out)
{
        struct ws_piece piece;
        size_t used;
        enum ws_event event = ws_next(&r->d, in + *at, n - *at, &used, &piece);

        ok(used <= n - *at);
        ok(piece.payload.p >= in + *at && piece.payload.p + piece.payload.n <= in + n);
        *at += used;
        switch (event) {
        case WS_DATA:
                piece_take(r, &piece, out);
                return true;
        case WS_CONTROL:
                control_put(out, &piece);
                return true;
        case WS_FAIL:
                eq_int(buf_printf(out, "fail%d ", piece.close_code), 0);
                r->failed = true;
                return false;
        default:
                eq_u64(used, 0);
                return false;
        }
}

/* Decodes `in`, of which `split` bytes arrive first and then `step` bytes at a time. Messages and control frames are listed; a
 * message that did not end is "open". */
static void show(struct buf *out, struct slice in, bool expects_mask, size_t split, size_t step)
{
        _free_ char *copy = mem_alloc(MAX(in.n, 1u));
        _buf_ struct buf message = BUF_INIT(MAX_MESSAGE);
        struct reader r = { .message = &message };
        size_t at = 0, avail = MIN(split, in.n);

        memcpy(copy, in.p, in.n);
        ws_decoder_init(&r.d, expects_mask, MAX_MESSAGE);
        for (;;) {
                while (event_take(&r, copy, avail, &at, out))
                        ;
                if (avail == in.n || r.failed)
                        break;
                avail = MIN(avail + step, in.n);
        }
        if (!r.failed && (at < in.n || r.in_message))
                eq_int(buf_append(out, S("open")), 0);
}

static void check_splits(struct slice in, bool expects_mask, const char *name, const char *expect)
{
        for (size_t split = 0; split <= in.n; split++) {
                _buf_ struct buf two = BUF_INIT(MAX_MESSAGE), many = BUF_INIT(MAX_MESSAGE);

                show(&two, in, expects_mask, split, in.n);
                show(&many, in, expects_mask, split, 1);
                if (strcmp(two.p, expect) != 0 || strcmp(many.p, expect) != 0)
                        fail_msg("%s, split at %zu: \"%s\" and \"%s\" instead of \"%s\"", name, split, two.p,
                                 many.p, expect);
        }
}

struct conformance {
        const char *name;
        struct frame frames[8];
        const char *expect;
};

static void check_table(const struct conformance *table, size_t count)
{
        for (size_t c = 0; c < count; c++) {
                _buf_ struct buf in = BUF_INIT(MAX_MESSAGE);

                for (size_t f = 0; f < 8 && table[c].frames[f].payload.p; f++)
                        frame_add(&in, table[c].frames[f].b0, table[c].frames[f].payload);
                check_splits(buf_slice(&in), true, table[c].name, table[c].expect);
        }
}

#define P123                                                                     \
        "0123456789012345678901234567890123456789012345678901234567890123456789" \
        "01234567890123456789012345678901234567890123456789012"
#define P125 P123 "34"

TEST(pings_and_pongs_are_given_whole_as_in_autobahn_2)
{
        static const struct conformance table[] = {
                { "2.1 ping without payload", { { FIN | 9, S("") } }, "ping'' " },
                { "2.2 ping with text", { { FIN | 9, S("Hello") } }, "ping'Hello' " },
                { "2.3 ping with binary", { { FIN | 9, S("\xff\xfe\x01") } }, "ping'\xff\xfe\x01' " },
                { "2.4 ping of 125", { { FIN | 9, S(P125) } }, "ping'" P125 "' " },
                { "2.5 ping of 126", { { FIN | 9, S(P125 "5") } }, "fail1002 " },
                { "2.7 unsolicited pong", { { FIN | 10, S("") } }, "pong'' " },
                { "2.8 unsolicited pong with payload", { { FIN | 10, S("x") } }, "pong'x' " },
                { "2.9 pong, ping",
                  { { FIN | 10, S("un") }, { FIN | 9, S("ping") } },
                  "pong'un' ping'ping' " },
                { "2.10 several pings",
                  { { FIN | 9, S("1") }, { FIN | 9, S("2") }, { FIN | 9, S("3") } },
                  "ping'1' ping'2' ping'3' " },
        };
        check_table(table, ARRAY_LEN(table));
}

TEST(reserved_bits_are_refused_as_in_autobahn_3)
{
        static const struct conformance table[] = {
                { "3.1", { { FIN | 0x10 | 1, S("x") } }, "fail1002 " },
                { "3.2", { { FIN | 1, S("ok") }, { FIN | 0x20 | 1, S("x") } }, "text'ok' fail1002 " },
                { "3.3", { { FIN | 1, S("ok") }, { FIN | 0x30 | 1, S("x") } }, "text'ok' fail1002 " },
                { "3.4", { { FIN | 1, S("ok") }, { FIN | 0x40 | 1, S("x") } }, "text'ok' fail1002 " },
                { "3.5", { { FIN | 0x50 | 2, S("x") } }, "fail1002 " },
                { "3.6", { { FIN | 0x60 | 9, S("x") } }, "fail1002 " },
                { "3.7", { { FIN | 0x70 | 8, S("") } }, "fail1002 " },
                { "on a continuation", { { 1, S("x") }, { FIN | 0x40, S("x") } }, "fail1002 " },
        };
        check_table(table, ARRAY_LEN(table));
}

TEST(unknown_opcodes_are_refused_as_in_autobahn_4)
{
        for (unsigned opcode = 0; opcode < 16; opcode++) {
                _buf_ struct buf in = BUF_INIT(4096);

                if (opcode <= WS_BINARY || (opcode >= WS_CLOSE && opcode <= WS_PONG))
                        continue;
                frame_add(&in, FIN | WS_TEXT, S("ok"));
                frame_add(&in, FIN | opcode, S("payload"));
                frame_add(&in, FIN | WS_PING, S(""));
                check_splits(buf_slice(&in), true, "4.x", "text'ok' fail1002 ");
        }
}

TEST(fragments_are_joined_as_in_autobahn_5)
{
        static const struct conformance table[] = {
                { "5.1 fragmented ping", { { 9, S("a") }, { FIN, S("b") } }, "fail1002 " },
                { "5.2 fragmented pong", { { 10, S("a") }, { FIN, S("b") } }, "fail1002 " },
                { "fragmented close", { { 8, S("") } }, "fail1002 " },
                { "5.3 two fragments", { { 1, S("frag1") }, { FIN, S("frag2") } }, "text'frag1frag2' " },
                { "two binary fragments", { { 2, S("\xff") }, { FIN, S("\xfe") } }, "binary'\xff\xfe' " },
                { "5.6 ping between",
                  { { 1, S("a") }, { FIN | 9, S("p") }, { FIN, S("b") } },
                  "ping'p' text'ab' " },
                { "pong between",
                  { { 2, S("a") }, { FIN | 10, S("p") }, { FIN, S("b") } },
                  "pong'p' binary'ab' " },
                { "close between", { { 1, S("a") }, { FIN | 8, S("\x03\xe8") } }, "1000close'' open" },
                { "5.9 continuation without start, fin", { { FIN, S("x") } }, "fail1002 " },
                { "5.10 after a message", { { FIN | 1, S("ok") }, { FIN, S("x") } }, "text'ok' fail1002 " },
                { "5.12 continuation without start", { { 0, S("x") }, { FIN | 1, S("x") } }, "fail1002 " },
                { "5.15 continuation after the end",
                  { { 1, S("a") }, { FIN, S("b") }, { 0, S("c") } },
                  "text'ab' fail1002 " },
                { "5.18 new text inside", { { 1, S("a") }, { FIN | 1, S("b") } }, "fail1002 " },
                { "new binary inside", { { 1, S("a") }, { 2, S("b") } }, "fail1002 " },
                { "5.19 five fragments with pings",
                  { { 1, S("1") },
                    { 0, S("2") },
                    { FIN | 9, S("p") },
                    { 0, S("3") },
                    { 0, S("4") },
                    { FIN | 9, S("q") },
                    { FIN, S("5") } },
                  "ping'p' ping'q' text'12345' " },
                { "empty fragments", { { 1, S("") }, { 0, S("") }, { FIN, S("") } }, "text'' " },
                { "empty final fragment", { { 1, S("abc") }, { FIN, S("") } }, "text'abc' " },
                { "empty first fragment", { { 2, S("") }, { FIN, S("abc") } }, "binary'abc' " },
                { "two messages",
                  { { 1, S("a") }, { FIN, S("b") }, { 2, S("c") }, { FIN, S("d") } },
                  "text'ab' binary'cd' " },
                { "unfinished", { { 1, S("a") }, { 0, S("b") } }, "open" },
        };
        check_table(table, ARRAY_LEN(table));
}

TEST(text_is_checked_for_utf8_as_in_autobahn_6)
{
        static const struct conformance table[] = {
                { "6.1 empty", { { FIN | 1, S("") } }, "text'' " },
                { "6.2.1", { { FIN | 1, S("Hello-\xc2\xb5@\xc3\x9f") } }, "text'Hello-\xc2\xb5@\xc3\x9f' " },
                { "6.2.3 cut in a character",
                  { { 1, S("Hello-\xc2") }, { FIN, S("\xb5@") } },
                  "text'Hello-\xc2\xb5@' " },
                { "four bytes in four fragments",
                  { { 1, S("\xf0") },
                    { 0, S("\x9f") },
                    { FIN | 9, S("\xff") },
                    { 0, S("\x98") },
                    { FIN, S("\x80") } },
                  "ping'\xff' text'\xf0\x9f\x98\x80' " },
                { "cut by an empty fragment",
                  { { 1, S("\xe2\x82") }, { 0, S("") }, { FIN, S("\xac") } },
                  "text'\xe2\x82\xac' " },
                { "6.3.1",
                  { { FIN | 1, S("\xce\xba\xed\xa0\x80"
                                 "edited") } },
                  "fail1007 " },
                { "6.4.1 fails before the final fragment",
                  { { 1, S("\xce\xba") }, { 0, S("\xf4\x90\x80\x80") } },
                  "fail1007 " },
                { "6.4.3 fails inside a character", { { 1, S("a\xf4") }, { 0, S("\x90") } }, "fail1007 " },
                { "6.6.1 cut by the end", { { FIN | 1, S("\xce") } }, "fail1007 " },
                { "cut by the end of the last fragment",
                  { { 1, S("\xe2\x82") }, { FIN, S("") } },
                  "fail1007 " },
                { "cut, then a new character", { { 1, S("\xe2\x82") }, { FIN, S("a") } }, "fail1007 " },
                { "6.7.1 first of one byte", { { FIN | 1, S("\x01") } }, "text'\x01' " },
                { "6.7.4 first of four bytes",
                  { { FIN | 1, S("\xf0\x90\x80\x80") } },
                  "text'\xf0\x90\x80\x80' " },
                { "6.8.1 first of five bytes", { { FIN | 1, S("\xf8\x88\x80\x80\x80") } }, "fail1007 " },
                { "6.9.1 last of one byte", { { FIN | 1, S("\x7f") } }, "text'\x7f' " },
                { "6.9.3 last of three bytes", { { FIN | 1, S("\xef\xbf\xbf") } }, "text'\xef\xbf\xbf' " },
                { "6.9.4 last of four bytes",
                  { { FIN | 1, S("\xf4\x8f\xbf\xbf") } },
                  "text'\xf4\x8f\xbf\xbf' " },
                { "6.10.1 beyond", { { FIN | 1, S("\xf7\xbf\xbf\xbf") } }, "fail1007 " },
                { "6.11.5 above 10FFFF", { { FIN | 1, S("\xf4\x90\x80\x80") } }, "fail1007 " },
                { "6.12.1 lone continuation", { { FIN | 1, S("\x80") } }, "fail1007 " },
                { "6.13.1 lonely starts", { { FIN | 1, S("\xc2 \xc3 ") } }, "fail1007 " },
                { "6.14.1 incomplete", { { FIN | 1, S("\xe0\xa0") } }, "fail1007 " },
                { "6.16.1 impossible bytes", { { FIN | 1, S("\xfe") } }, "fail1007 " },
                { "6.17.1 overlong", { { FIN | 1, S("\xc0\xaf") } }, "fail1007 " },
                { "6.18.1 overlong", { { FIN | 1, S("\xc1\xbf") } }, "fail1007 " },
                { "6.19.1 overlong", { { FIN | 1, S("\xe0\x80\x80") } }, "fail1007 " },
                { "6.20.1 surrogate", { { FIN | 1, S("\xed\xa0\x80") } }, "fail1007 " },
                { "6.21.1 surrogate pair", { { FIN | 1, S("\xed\xa0\x80\xed\xb0\x80") } }, "fail1007 " },
                { "6.22.1 noncharacter", { { FIN | 1, S("\xef\xbf\xbe") } }, "text'\xef\xbf\xbe' " },
                { "6.23.1 replacement", { { FIN | 1, S("\xef\xbf\xbd") } }, "text'\xef\xbf\xbd' " },
                { "binary is not checked", { { FIN | 2, S("\xff\xc0") } }, "binary'\xff\xc0' " },
                { "state does not leak into the next message",
                  { { FIN | 2, S("\xe2\x82") }, { FIN | 1, S("a") } },
                  "binary'\xe2\x82' text'a' " },
        };
        check_table(table, ARRAY_LEN(table));
}

TEST(bad_text_fails_inside_a_frame_before_the_frame_is_there)
{
        _buf_ struct buf in = BUF_INIT(4096);
        struct ws_decoder d;
        struct ws_piece piece;
        size_t used;

        frame_add(&in, FIN | WS_TEXT, S("abc\xf4\x90 and much more that is not awaited"));
        ws_decoder_init(&d, true, MAX_MESSAGE);
        eq_int(ws_next(&d, in.p, 6 + 4, &used, &piece), WS_DATA);
        eq_u64(used, 10);
        eq_int(ws_next(&d, in.p + 10, 1, &used, &piece), WS_FAIL);
        eq_int(piece.close_code, WS_CLOSE_BAD_DATA);
}

TEST(close_frames_are_checked_as_in_autobahn_7)
{
        static const struct conformance table[] = {
                { "7.1.1", { { FIN | 1, S("Hi") }, { FIN | 8, S("\x03\xe8") } }, "text'Hi' 1000close'' " },
                { "7.1.2 twice",
                  { { FIN | 8, S("\x03\xe8") }, { FIN | 8, S("\x03\xe8") } },
                  "1000close'' 1000close'' " },
                { "7.3.1 empty", { { FIN | 8, S("") } }, "1005close'' " },
                { "7.3.2 one byte", { { FIN | 8, S("\x03") } }, "fail1002 " },
                { "7.3.4 reason", { { FIN | 8, S("\x03\xe8Hello World!") } }, "1000close'Hello World!' " },
                { "7.3.5 longest reason", { { FIN | 8, S("\x03\xe8" P123) } }, "1000close'" P123 "' " },
                { "7.3.6 too long", { { FIN | 8, S("\x03\xe8" P125) } }, "fail1002 " },
                { "7.5.1 bad utf8", { { FIN | 8, S("\x03\xe8\xce\xba\xed\xa0\x80") } }, "fail1007 " },
                { "reason cut in a character", { { FIN | 8, S("\x03\xe8\xe2\x82") } }, "fail1007 " },
        };
        check_table(table, ARRAY_LEN(table));
}

static bool close_code_may_be_sent(unsigned code)
{
        static const unsigned valid[] = { 1000, 1001, 1002, 1003, 1007, 1008,
                                          1009, 1010, 1011, 1012, 1013, 1014 };

        for (size_t i = 0; i < ARRAY_LEN(valid); i++)
                if (code == valid[i])
                        return true;
        return code >= 3000 && code < 5000;
}

TEST(every_close_code_is_judged_as_in_autobahn_7_7_and_7_9)
{
        for (unsigned code = 0; code <= UINT16_MAX; code++) {
                char payload[2] = { (char)(code >> 8), (char)(code & 0xff) };
                char in[WS_HEAD_MAX + 4 + 2];
                struct ws_decoder d;
                struct ws_piece piece;
                unsigned key_at = 0;
                size_t used, n = ws_head_write_masked(in, WS_CLOSE, true, 2, test_key);

                memcpy(in + n, payload, 2);
                ws_mask(in + n, 2, test_key, &key_at);
                ws_decoder_init(&d, true, MAX_MESSAGE);
                enum ws_event event = ws_next(&d, in, n + 2, &used, &piece);
                eq_int(event, close_code_may_be_sent(code) ? WS_CONTROL : WS_FAIL);
                eq_int(piece.close_code, close_code_may_be_sent(code) ? (int)code : WS_CLOSE_PROTOCOL);
        }
}

TEST(every_size_survives_every_chop_as_in_autobahn_1)
{
        static const size_t sizes[] = { 0, 1, 2, 7, 8, 9, 124, 125, 126, 127, 128, 65535, 65536, 100000 };
        static const size_t steps[] = { 1, 3, 997, 65536, SIZE_MAX / 2 };

        for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
                for (unsigned opcode = WS_TEXT; opcode <= WS_BINARY; opcode++) {
                        _buf_ struct buf in = BUF_INIT(MAX_MESSAGE), expect = BUF_INIT(MAX_MESSAGE);
                        _free_ char *payload = mem_alloc(sizes[s] + 1);

                        for (size_t i = 0; i < sizes[s]; i++)
                                payload[i] = (char)(opcode == WS_TEXT ? ' ' + i % 90 : i * 7);
                        frame_add(&in, FIN | opcode, slice_from(payload, sizes[s]));
                        put(&expect, opcode == WS_TEXT ? "text" : "binary", slice_from(payload, sizes[s]));
                        for (size_t k = 0; k < ARRAY_LEN(steps); k++) {
                                _buf_ struct buf out = BUF_INIT(MAX_MESSAGE);
                                show(&out, buf_slice(&in), true, 0, steps[k]);
                                eq_slice(buf_slice(&out), buf_slice(&expect));
                        }
                }
        }
}

TEST(lengths_must_be_minimal_and_below_63_bits)
{
        static const struct {
                struct slice in;
                const char *expect;
        } cases[] = {
                { S("\x82\xfe\x00\x7d"), "fail1002 " }, /* 125 in 16 bits */
                { S("\x82\xfe\x00\x00"), "fail1002 " },
                { S("\x82\xfe\x00\x7e"), "open" },
                { S("\x82\xff\x00\x00\x00\x00\x00\x00\xff\xff"), "fail1002 " }, /* 65535 in 64 bits */
                { S("\x82\xff\x00\x00\x00\x00\x00\x00\x00\x00"), "fail1002 " },
                { S("\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00"), "open" },
                { S("\x82\xff\x80\x00\x00\x00\x00\x01\x00\x00"), "fail1002 " },
                { S("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "fail1002 " },
                { S("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff"),
                  "fail1009 " },                /* refused before the key arrives */
                { S("\x89\xfe"), "fail1002 " }, /* control frames have no long form at all */
                { S("\x89\xff"), "fail1002 " },
                { S("\x88\xfe"), "fail1002 " },
        };

        for (size_t c = 0; c < ARRAY_LEN(cases); c++)
                check_splits(cases[c].in, true, "length", cases[c].expect);
}

TEST(mask_must_be_there_from_clients_and_absent_from_servers)
{
        check_splits(S("\x81\x02hi"), true, "unmasked text", "fail1002 ");
        check_splits(S("\x89\x00"), true, "unmasked ping", "fail1002 ");
        check_splits(S("\x81\x02hi"), false, "unmasked text", "text'hi' ");
        check_splits(S("\x89\x00"), false, "unmasked ping", "ping'' ");
        check_splits(S("\x81\x82\x00\x00\x00\x00hi"), false, "masked text", "fail1002 ");
        check_splits(S("\x89\x80\x00\x00\x00\x00"), false, "masked ping", "fail1002 ");
        /* the examples of RFC 6455, 5.7 */
        check_splits(S("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), true, "RFC", "text'Hello' ");
        check_splits(S("\x01\x03\x48\x65\x6c\x80\x02\x6c\x6f"), false, "RFC", "text'Hello' ");
        check_splits(S("\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), true, "RFC", "pong'Hello' ");
}

static enum ws_event next_of(struct ws_decoder *d, const struct buf *in, size_t *at, struct ws_piece *piece)
{
        size_t used;
        enum ws_event event = ws_next(d, in->p + *at, in->n - *at, &used, piece);

        *at += used;
        return event;
}

TEST(message_beyond_the_limit_fails_when_a_head_announces_it)
{
        static const struct {
                struct frame frames[4];
                enum ws_event last;
        } cases[] = {
                { { { FIN | 1, S("12345678") } }, WS_DATA },
                { { { FIN | 1, S("123456789") } }, WS_FAIL },
                { { { 1, S("1234") }, { 0, S("5678") }, { FIN, S("") } }, WS_DATA },
                { { { 1, S("1234") }, { 0, S("5678") }, { FIN, S("9") } }, WS_FAIL },
                { { { 1, S("12345678") }, { FIN, S("") }, { FIN | 1, S("12345678") } },
                  WS_DATA }, /* each message is counted from 0 */
                { { { FIN | 1, S("12345678") }, { 1, S("1234") }, { FIN, S("5678") } }, WS_DATA },
                { { { FIN | 9, S("123456789") } }, WS_CONTROL },
        };

        for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
                struct ws_decoder d;
                struct ws_piece piece = { 0 };
                size_t at = 0;
                enum ws_event event = WS_MORE;
                _buf_ struct buf in = BUF_INIT(4096);

                for (size_t f = 0; f < 4 && cases[c].frames[f].payload.p; f++)
                        frame_add(&in, cases[c].frames[f].b0, cases[c].frames[f].payload);
                ws_decoder_init(&d, true, 8);
                while (at < in.n && event != WS_FAIL)
                        event = next_of(&d, &in, &at, &piece);
                eq_int(event, cases[c].last);
                eq_int(piece.close_code, event == WS_FAIL ? WS_CLOSE_TOO_BIG : 0);
        }
}

TEST(fragments_cannot_overflow_the_message_size)
{
        static char in[] = "\x02\x7f\x7f\xff\xff\xff\xff\xff\xff\xff";
        struct ws_decoder d;
        struct ws_piece piece;
        size_t used;

        ws_decoder_init(&d, false, UINT64_MAX);
        eq_int(ws_next(&d, in, 10, &used, &piece), WS_DATA);
        eq_u64(piece.frame_left, INT64_MAX);
        d.in_frame = false; /* as if more such frames had come */
        d.message_bytes = UINT64_MAX - 5;
        in[0] = '\0';
        eq_int(ws_next(&d, in, 10, &used, &piece), WS_FAIL);
        eq_int(piece.close_code, WS_CLOSE_TOO_BIG);
}

TEST(head_alone_gives_an_empty_piece_that_says_what_will_come)
{
        _buf_ struct buf in = BUF_INIT(4096);
        struct ws_decoder d;
        struct ws_piece piece;
        size_t used;

        frame_add(&in, WS_TEXT, S("Hello"));
        ws_decoder_init(&d, true, MAX_MESSAGE);
        for (size_t n = 0; n < 6; n++)
                eq_int(ws_next(&d, in.p, n, &used, &piece), WS_MORE);

        eq_int(ws_next(&d, in.p, 6, &used, &piece), WS_DATA);
        eq_u64(used, 6);
        eq_u64(piece.payload.n, 0);
        ok(piece.message_start && !piece.message_end && piece.is_fragmented);
        eq_u64(piece.frame_left, 5);
        eq_int(piece.opcode, WS_TEXT);

        eq_int(ws_next(&d, in.p + 6, 0, &used, &piece), WS_MORE);
        eq_int(ws_next(&d, in.p + 6, 2, &used, &piece), WS_DATA);
        eq_slice(piece.payload, S("He"));
        ok(!piece.message_start);
        eq_u64(piece.frame_left, 3);

        eq_int(ws_next(&d, in.p + 8, 3, &used, &piece), WS_DATA);
        eq_slice(piece.payload, S("llo"));
        eq_u64(piece.frame_left, 0);
        ok(!piece.message_end); /* the frame was not the last */
}

TEST(piece_ends_with_its_frame_also_when_more_bytes_are_there)
{
        _buf_ struct buf in = BUF_INIT(4096);
        struct ws_decoder d;
        struct ws_piece piece;
        size_t at = 0;

        frame_add(&in, WS_BINARY, S("abc"));
        frame_add(&in, FIN | WS_PING, S("p"));
        frame_add(&in, FIN | WS_CONTINUATION, S(""));
        frame_add(&in, FIN | WS_TEXT, S("x"));
        ws_decoder_init(&d, true, MAX_MESSAGE);

        eq_int(next_of(&d, &in, &at, &piece), WS_DATA);
        eq_slice(piece.payload, S("abc"));
        ok(piece.message_start && !piece.message_end && piece.is_fragmented);
        eq_int(next_of(&d, &in, &at, &piece), WS_CONTROL);
        eq_int(piece.opcode, WS_PING);
        eq_int(next_of(&d, &in, &at, &piece), WS_DATA);
        eq_int(piece.opcode, WS_BINARY);
        eq_u64(piece.payload.n, 0);
        ok(!piece.message_start && piece.message_end && !piece.is_fragmented);
        eq_int(next_of(&d, &in, &at, &piece), WS_DATA);
        ok(piece.message_start && piece.message_end);
        eq_u64(at, in.n);
        eq_int(next_of(&d, &in, &at, &piece), WS_MORE);
}

TEST(mask_turns_its_key_over_any_length_and_alignment)
{
        for (size_t offset = 0; offset < 8; offset++) {
                for (size_t n = 0; n <= 40; n++) {
                        for (size_t cut = 0; cut <= n; cut++) {
                                char bytes[64] = { 0 };
                                unsigned key_at = 0;

                                ws_mask(bytes + offset, cut, test_key, &key_at);
                                eq_int(key_at, cut % 4);
                                ws_mask(bytes + offset + cut, n - cut, test_key, &key_at);
                                for (size_t i = 0; i < sizeof(bytes); i++)
                                        eq_int((uint8_t)bytes[i], i >= offset && i < offset + n
                                                                          ? test_key[(i - offset) % 4]
                                                                          : 0);
                        }
                }
        }
}

TEST(heads_are_written_in_the_shortest_form)
{
        static const struct {
                uint64_t len;
                struct slice head;
        } cases[] = {
                { 0, S("\x81\x00") },
                { 125, S("\x81\x7d") },
                { 126, S("\x81\x7e\x00\x7e") },
                { 65535, S("\x81\x7e\xff\xff") },
                { 65536, S("\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00") },
                { INT64_MAX, S("\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff") },
        };

        for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
                char head[WS_HEAD_MAX], masked[WS_HEAD_MAX + 4];
                size_t n = ws_head_write(head, WS_TEXT, true, cases[c].len);

                eq_slice(slice_from(head, n), cases[c].head);
                eq_u64(ws_head_size(cases[c].len), n);

                eq_u64(ws_head_write_masked(masked, WS_TEXT, true, cases[c].len, test_key), n + 4);
                eq_int((uint8_t)masked[1], (uint8_t)head[1] | 0x80);
                eq_slice(slice_from(masked + n, 4), slice_from(test_key, 4));
        }

        char head[WS_HEAD_MAX];
        eq_u64(ws_head_write(head, WS_CONTINUATION, false, 1), 2);
        eq_int(head[0], 0);
}

TEST(accept_is_that_of_the_rfc)
{
        char accept[29];

        ws_accept(S("dGhlIHNhbXBsZSBub25jZQ=="), accept);
        eq_str(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

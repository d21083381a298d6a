/* outq_test: tests that the messages of a queue arrive framed and whole, for any length, any hint and any pace of the reader. The
 * decoder of a client reads the frames back. */
#include "conn/outq.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the peer ----------------------------------------------------------------------------------------------------- */

struct peer {
        int ours, theirs;
        struct buf wire; /* bytes that the peer has received */
};

static void peer_open(struct peer *peer)
{
        int fds[2];
        signal(SIGPIPE, SIG_IGN);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        *peer = (struct peer){ .ours = fds[0], .theirs = fds[1], .wire = BUF_INIT(64 * MIB) };
}

static void peer_close(struct peer *peer)
{
        peer->ours = fd_close(peer->ours);
        peer->theirs = fd_close(peer->theirs);
        buf_release(&peer->wire);
}

/* Reads at most `max` bytes, and returns how many were read. */
static size_t peer_read(struct peer *peer, size_t max)
{
        char *room;
        eq_int(buf_reserve(&peer->wire, max, &room), 0);
        ssize_t r = read(peer->theirs, room, max);
        if (r < 0)
                eq_int(errno, EAGAIN);
        size_t n = r > 0 ? (size_t)r : 0;
        buf_commit(&peer->wire, n);
        return n;
}

/* Sends everything. The peer reads `step` bytes whenever the descriptor takes no more. Returns how often that happened. */
static int send_all(struct outq *q, struct peer *peer, size_t step)
{
        int full = 0, r;
        while ((r = outq_flush(q, peer->ours)) == 1) {
                full++;
                size_t left = q->bytes;
                ok(left > 0);
                ok(peer_read(peer, step) > 0);
                eq_u64(q->bytes, left);
        }
        eq_int(r, 0);
        eq_u64(q->bytes, 0);
        while (peer_read(peer, 256 * KIB) > 0)
                ;
        return full;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* Returns byte `at` of message `seed`. It is ASCII, so that the text is valid, and the pattern differs at every frame border. */
static char byte_of(size_t seed, size_t at)
{
        return (char)(' ' + (seed * 31 + at * 7 + at / 251 + at / 65521) % 90);
}

static void fill(struct buf *b, size_t seed, size_t n)
{
        char *room;
        eq_int(buf_reserve(b, n, &room), 0);
        for (size_t i = 0; i < n; i++)
                room[i] = byte_of(seed, i);
        buf_commit(b, n);
}

static void put(struct outq *q, size_t seed, size_t n, size_t hint)
{
        size_t before = q->bytes;
        fill(outq_begin(q, hint), seed, n);
        eq_u64(q->bytes, before); /* a message is counted when it is whole */
        eq_int(outq_end(q), 0);
        ok(q->bytes >= before + n);
}

static bool is_message(struct slice got, size_t seed, size_t n)
{
        if (got.n != n)
                return false;
        for (size_t i = 0; i < n; i++)
                if (got.p[i] != byte_of(seed, i))
                        return false;
        return true;
}

/* A client that decodes what has arrived. */
struct reading {
        struct ws_decoder decoder;
        struct buf message;
        struct slice control; /* payload of the last control frame */
        enum ws_opcode opcode;
        size_t at, frames, frame_bytes, largest_frame;
};

static void reading_open(struct reading *reading)
{
        *reading = (struct reading){ .message = BUF_INIT(64 * MIB) };
        ws_decoder_init(&reading->decoder, false, 64 * MIB);
}

/* Decodes the next whole message (WS_DATA) or control frame (WS_CONTROL). Returns WS_MORE when none is complete. */
static enum ws_event next(struct reading *reading, struct peer *peer)
{
        buf_truncate(&reading->message, 0);
        reading->frames = 0;
        for (;;) {
                struct ws_piece piece;
                size_t used;
                enum ws_event ev = ws_next(&reading->decoder, peer->wire.p + reading->at,
                                           peer->wire.n - reading->at, &used, &piece);
                reading->at += used;
                ok(ev != WS_FAIL);
                if (ev == WS_MORE) {
                        eq_u64(reading->at, peer->wire.n);
                        return ev;
                }
                reading->opcode = piece.opcode;
                if (ev == WS_CONTROL) {
                        reading->control = piece.payload;
                        return ev;
                }
                eq_int(piece.opcode, WS_TEXT);
                eq_int(buf_append(&reading->message, piece.payload), 0);
                reading->frame_bytes += piece.payload.n;
                if (piece.frame_left == 0) {
                        reading->largest_frame = MAX(reading->largest_frame, reading->frame_bytes);
                        reading->frame_bytes = 0;
                        reading->frames++;
                }
                if (piece.message_end)
                        return ev;
        }
}

static void expect_message(struct reading *reading, struct peer *peer, size_t seed, size_t n)
{
        eq_int(next(reading, peer), WS_DATA);
        ok(is_message(buf_slice(&reading->message), seed, n));
        eq_u64(reading->frames, n ? (n + LIMIT_FRAME_OUT_BYTES - 1) / LIMIT_FRAME_OUT_BYTES : 1);
        ok(reading->largest_frame <= LIMIT_FRAME_OUT_BYTES);
}

static void expect_end(struct reading *reading, struct peer *peer)
{
        eq_int(next(reading, peer), WS_MORE);
        eq_u64(reading->message.n, 0);
        buf_release(&reading->message);
}

static const size_t lengths[] = {
        0, 1, 125, 126, 65535, 65536, MIB, MIB + 1, 2 * MIB, 3 * MIB + MIB / 2,
};

/* --- frames ------------------------------------------------------------------------------------------------------- */

TEST(a_message_of_any_length_arrives_whole_whatever_the_hint_was)
{
        static const size_t hints[] = { 0, 125, 126, 65535, 65536, MIB + 1 };
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
                for (size_t j = 0; j <= ARRAY_LEN(hints); j++) {
                        struct peer peer;
                        struct reading reading;
                        struct outq q;
                        peer_open(&peer);
                        reading_open(&reading);
                        outq_init(&q, FRAMING_WS, 64 * MIB);

                        put(&q, i, lengths[i], j < ARRAY_LEN(hints) ? hints[j] : lengths[i]);
                        (void)send_all(&q, &peer, MIB);
                        expect_message(&reading, &peer, i, lengths[i]);
                        expect_end(&reading, &peer);

                        outq_release(&q);
                        peer_close(&peer);
                }
        }
}

TEST(messages_of_all_lengths_in_a_row_keep_their_borders)
{
        struct peer peer;
        struct reading reading;
        struct outq q;
        peer_open(&peer);
        reading_open(&reading);
        outq_init(&q, FRAMING_WS, 64 * MIB);

        /* First with right hints, then with hints that are too small, so that payloads in the middle of shared blocks are moved. */
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
                put(&q, i, lengths[i], lengths[i]);
        for (size_t i = ARRAY_LEN(lengths); i-- > 0;)
                put(&q, i, lengths[i], 1);
        (void)send_all(&q, &peer, 100 * KIB);
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
                expect_message(&reading, &peer, i, lengths[i]);
        for (size_t i = ARRAY_LEN(lengths); i-- > 0;)
                expect_message(&reading, &peer, i, lengths[i]);
        expect_end(&reading, &peer);

        outq_release(&q);
        peer_close(&peer);
}

TEST(a_small_buffer_of_the_kernel_is_filled_in_many_steps)
{
        struct peer peer;
        struct reading reading;
        struct outq q;
        int small = 4096;
        peer_open(&peer);
        reading_open(&reading);
        outq_init(&q, FRAMING_WS, 64 * MIB);
        eq_int(setsockopt(peer.ours, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);

        for (size_t i = 0; i < 200; i++)
                put(&q, i, i * 13, 16);
        put(&q, 200, MIB + 77, 64);
        ok(send_all(&q, &peer, 1777) > 100);
        for (size_t i = 0; i < 200; i++)
                expect_message(&reading, &peer, i, i * 13);
        expect_message(&reading, &peer, 200, MIB + 77);
        expect_end(&reading, &peer);

        outq_release(&q);
        peer_close(&peer);
}

TEST(more_blocks_than_one_writev_takes_are_sent_in_one_flush)
{
        struct peer peer;
        struct reading reading;
        struct outq q;
        int large = 8 * MIB;
        peer_open(&peer);
        reading_open(&reading);
        outq_init(&q, FRAMING_WS, 64 * MIB);
        (void)setsockopt(peer.ours, SOL_SOCKET, SO_SNDBUF, &large, sizeof(large));

        for (size_t i = 0; i < 300; i++)
                put(&q, i, 300, 4096); /* with this hint each message gets a block of its own */
        (void)send_all(&q, &peer, MIB);
        for (size_t i = 0; i < 300; i++)
                expect_message(&reading, &peer, i, 300);
        expect_end(&reading, &peer);

        outq_release(&q);
        peer_close(&peer);
}

TEST(a_message_appended_behind_a_half_sent_one_follows_it)
{
        struct peer peer;
        struct reading reading;
        struct outq q;
        int small = 4096;
        peer_open(&peer);
        reading_open(&reading);
        outq_init(&q, FRAMING_WS, 64 * MIB);
        eq_int(setsockopt(peer.ours, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);

        put(&q, 1, 300 * KIB, 1);
        eq_int(outq_flush(&q, peer.ours), 1);
        put(&q, 2, 40, 40);
        eq_int(outq_flush(&q, peer.ours), 1);
        put(&q, 3, 300 * KIB, 1);
        (void)send_all(&q, &peer, 10000);
        expect_message(&reading, &peer, 1, 300 * KIB);
        expect_message(&reading, &peer, 2, 40);
        expect_message(&reading, &peer, 3, 300 * KIB);
        expect_end(&reading, &peer);

        outq_release(&q);
        peer_close(&peer);
}

/* --- cancelled messages and raw bytes ----------------------------------------------------------------------------- */

TEST(a_cancelled_message_leaves_no_trace)
{
        struct peer peer;
        struct reading reading;
        struct outq q;
        peer_open(&peer);
        reading_open(&reading);
        outq_init(&q, FRAMING_WS, 64 * MIB);

        fill(outq_begin(&q, 10), 9, 5000); /* the first message of the queue */
        outq_cancel(&q);
        eq_u64(q.bytes, 0);
        eq_int(outq_flush(&q, peer.ours), 0);
        ok(list_is_empty(&q.blocks));

        put(&q, 1, 100, 100);
        fill(outq_begin(&q, 10), 9, 5); /* behind another message, in the same block */
        outq_cancel(&q);
        fill(outq_begin(&q, 10000), 9, 20000); /* in a block of its own */
        outq_cancel(&q);
        fill(outq_begin(&q, 10), 9, 0); /* an empty message */
        outq_cancel(&q);
        put(&q, 2, 200, 10);
        (void)send_all(&q, &peer, MIB);
        expect_message(&reading, &peer, 1, 100);
        expect_message(&reading, &peer, 2, 200);
        expect_end(&reading, &peer);

        outq_release(&q);
        peer_close(&peer);
}

TEST(control_frames_stand_between_messages)
{
        struct peer peer;
        struct reading reading;
        struct outq q;
        char full[125];
        memset(full, 'p', sizeof(full));
        peer_open(&peer);
        reading_open(&reading);
        outq_init(&q, FRAMING_WS, 64 * MIB);

        outq_control(&q, WS_PING, S(""));
        put(&q, 1, MIB + 1, 1);
        outq_control(&q, WS_PONG, slice_from(full, sizeof(full)));
        put(&q, 2, 3, 3);
        outq_control(&q, WS_CLOSE, S("\x03\xe8"));
        (void)send_all(&q, &peer, MIB);

        eq_int(next(&reading, &peer), WS_CONTROL);
        eq_int(reading.opcode, WS_PING);
        eq_slice(reading.control, S(""));
        expect_message(&reading, &peer, 1, MIB + 1);
        eq_int(next(&reading, &peer), WS_CONTROL);
        eq_int(reading.opcode, WS_PONG);
        eq_slice(reading.control, slice_from(full, sizeof(full)));
        expect_message(&reading, &peer, 2, 3);
        eq_int(next(&reading, &peer), WS_CONTROL);
        eq_int(reading.opcode, WS_CLOSE);
        expect_end(&reading, &peer);

        outq_release(&q);
        peer_close(&peer);
}

TEST(a_moved_queue_follows_what_was_there_and_is_empty)
{
        struct peer peer;
        struct reading reading;
        struct outq to, from, empty;
        peer_open(&peer);
        reading_open(&reading);
        outq_init(&to, FRAMING_WS, 64 * MIB);
        outq_init(&from, FRAMING_WS, 64 * MIB);
        outq_init(&empty, FRAMING_RAW, 64 * MIB);

        put(&to, 1, 10, 10);
        put(&from, 2, 5000, 10);
        put(&from, 3, 10, 10000);
        size_t sum = to.bytes + from.bytes;
        outq_move(&to, &from);
        outq_move(&to, &empty);
        eq_u64(to.bytes, sum);
        eq_u64(from.bytes, 0);
        ok(list_is_empty(&from.blocks));
        put(&to, 4, 20, 20);
        put(&from, 5, 30, 30); /* `from` can still be used */
        (void)send_all(&to, &peer, MIB);
        (void)send_all(&from, &peer, MIB);
        for (size_t i = 1; i <= 5; i++)
                expect_message(&reading, &peer, i, (size_t[]){ 0, 10, 5000, 10, 20, 30 }[i]);
        expect_end(&reading, &peer);

        outq_release(&to);
        outq_release(&from);
        peer_close(&peer);
}

/* --- other framings ----------------------------------------------------------------------------------------------- */

TEST(lines_end_in_a_newline_and_have_no_head)
{
        struct peer peer;
        struct outq q;
        peer_open(&peer);
        outq_init(&q, FRAMING_LINES, 64 * MIB);

        ok(buf_append(outq_begin(&q, 2), S("{\"first\":1}")) == 0);
        eq_int(outq_end(&q), 0);
        ok(buf_append(outq_begin(&q, 2000), S("{}")) == 0);
        eq_int(outq_end(&q), 0);
        eq_u64(q.bytes, 15);
        (void)send_all(&q, &peer, MIB);
        eq_slice(buf_slice(&peer.wire), S("{\"first\":1}\n{}\n"));
        buf_truncate(&peer.wire, 0);

        put(&q, 1, 2 * MIB, 5); /* large messages are not split */
        (void)send_all(&q, &peer, MIB);
        ok(is_message(slice_from(peer.wire.p, peer.wire.n - 1), 1, 2 * MIB));
        eq_int(peer.wire.p[peer.wire.n - 1], '\n');

        outq_release(&q);
        peer_close(&peer);
}

TEST(raw_bytes_are_sent_as_they_are)
{
        struct peer peer;
        struct outq q;
        peer_open(&peer);
        outq_init(&q, FRAMING_RAW, 64 * MIB);

        ok(buf_append(outq_begin(&q, 0), S("HTTP/1.1 200 OK\r\n")) == 0);
        eq_int(outq_end(&q), 0);
        outq_raw(&q, S(""));
        outq_raw(&q, S("\r\n"));
        eq_u64(q.bytes, 19);
        (void)send_all(&q, &peer, MIB);
        eq_slice(buf_slice(&peer.wire), S("HTTP/1.1 200 OK\r\n\r\n"));

        outq_release(&q);
        peer_close(&peer);
}

/* --- limits and failures ------------------------------------------------------------------------------------------ */

TEST(a_message_may_be_as_long_as_the_peer_reads_and_no_longer)
{
        static const enum framing framings[] = { FRAMING_WS, FRAMING_LINES, FRAMING_RAW };
        for (size_t i = 0; i < ARRAY_LEN(framings); i++) {
                struct outq q;
                outq_init(&q, framings[i], 1000);

                struct buf *b = outq_begin(&q, 10);
                fill(b, 1, 1000);
                eq_int(buf_append_char(b, 'x'), -ENOBUFS);
                eq_int(outq_end(&q), 0);
                size_t bytes = q.bytes;

                b = outq_begin(&q, 5000);
                fill(b, 2, 999);
                eq_int(buf_append(b, S("xx")), -ENOBUFS);
                outq_cancel(&q);
                eq_u64(q.bytes, bytes);
                outq_release(&q);
        }
}

TEST(a_message_that_became_too_long_is_refused_and_leaves_no_trace)
{
        struct peer peer;
        struct reading reading;
        struct outq q;
        peer_open(&peer);
        reading_open(&reading);
        outq_init(&q, FRAMING_WS, 1000);

        put(&q, 1, 10, 10);
        fill(outq_begin(&q, 900), 2, 900);
        q.max_message = 800; /* the peer has lowered its limit meanwhile */
        eq_int(outq_end(&q), -EMSGSIZE);
        put(&q, 3, 800, 800);
        (void)send_all(&q, &peer, MIB);
        expect_message(&reading, &peer, 1, 10);
        expect_message(&reading, &peer, 3, 800);
        expect_end(&reading, &peer);

        outq_release(&q);
        peer_close(&peer);
}

TEST(a_peer_that_reads_anything_is_not_refused_everything)
{
        static const size_t largest[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 9, SIZE_MAX / 2,
                                          SIZE_MAX / 2 + 1 };
        for (size_t i = 0; i < ARRAY_LEN(largest); i++) {
                struct outq q;
                outq_init(&q, FRAMING_WS, largest[i]);
                for (int n = 0; n < 3; n++) {
                        struct buf *b = outq_begin(&q, 10);
                        eq_int(buf_append(b, S("{}")), 0);
                        eq_int(outq_end(&q), 0);
                }
                outq_release(&q);
        }
}

TEST(a_dead_descriptor_is_an_error)
{
        struct peer peer;
        struct outq q;
        peer_open(&peer);
        outq_init(&q, FRAMING_WS, 1000);

        eq_int(outq_flush(&q, peer.ours), 0); /* an empty queue sends nothing */
        put(&q, 1, 10, 10);
        peer.theirs = fd_close(peer.theirs);
        eq_int(outq_flush(&q, peer.ours), -EPIPE);
        ok(q.bytes > 0);

        outq_release(&q);
        eq_u64(q.bytes, 0);
        peer_close(&peer);
}

/* --- messages made elsewhere, and streams ------------------------------------------------------------------------- */

static struct buf buf_with(size_t seed, size_t from, size_t n)
{
        struct buf b = BUF_INIT(64 * MIB);
        char *room;
        eq_int(buf_reserve(&b, OUTQ_ROOM + n, &room), 0);
        memset(room, '!', OUTQ_ROOM);
        for (size_t i = 0; i < n; i++)
                room[OUTQ_ROOM + i] = byte_of(seed, from + i);
        buf_commit(&b, OUTQ_ROOM + n);
        return b;
}

TEST(a_message_made_elsewhere_arrives_like_any_other)
{
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
                struct peer peer;
                struct reading reading;
                struct outq q;
                peer_open(&peer);
                outq_init(&q, FRAMING_WS, 64 * MIB);
                put(&q, 1, 100, 100);
                struct buf message = buf_with(2, 0, lengths[i]);
                eq_int(outq_send(&q, &message), 0);
                eq_u64(message.n, 0);
                put(&q, 3, 100, 100);
                (void)send_all(&q, &peer, 64 * KIB);
                reading_open(&reading);
                expect_message(&reading, &peer, 1, 100);
                expect_message(&reading, &peer, 2, lengths[i]);
                expect_message(&reading, &peer, 3, 100);
                expect_end(&reading, &peer);
                outq_release(&q);
                peer_close(&peer);
        }
}

TEST(a_message_made_elsewhere_that_is_too_long_is_refused)
{
        struct outq q;
        outq_init(&q, FRAMING_WS, 1000);
        _buf_ struct buf message = buf_with(1, 0, 1001);
        eq_int(outq_send(&q, &message), -EMSGSIZE);
        eq_u64(q.bytes, 0);
        outq_release(&q);
}

TEST(messages_wait_behind_a_stream_and_control_frames_do_not)
{
        enum { PIECE = 3000 };
        struct peer peer;
        struct reading reading;
        struct outq q;
        peer_open(&peer);
        outq_init(&q, FRAMING_WS, 64 * MIB);
        put(&q, 1, 10, 10);
        outq_stream_begin(&q);
        struct buf piece = buf_with(2, 0, PIECE);
        outq_stream_piece(&q, &piece, false);
        fill(outq_begin(&q, 20), 3, 20);
        eq_int(outq_end(&q), 0);
        struct buf message = buf_with(4, 0, 2 * MIB);
        eq_int(outq_send(&q, &message), 0);
        ok(outq_backlog(&q) > 2 * MIB);
        outq_control(&q, WS_PING, S("now"));
        (void)send_all(&q, &peer, 64 * KIB);
        reading_open(&reading);
        expect_message(&reading, &peer, 1, 10);
        eq_int(next(&reading, &peer), WS_CONTROL); /* came between two frames of the stream */
        eq_slice(reading.control, S("now"));

        piece = buf_with(2, PIECE, PIECE);
        outq_stream_piece(&q, &piece, false);
        piece = buf_with(2, 2 * PIECE, PIECE);
        outq_stream_piece(&q, &piece, true);
        put(&q, 5, 10, 10);
        (void)send_all(&q, &peer, 64 * KIB);
        eq_int(next(&reading, &peer), WS_DATA); /* the stream; its first frame was read before the ping */
        eq_u64(reading.frames, 2);
        expect_message(&reading, &peer, 3, 20);
        expect_message(&reading, &peer, 4, 2 * MIB);
        expect_message(&reading, &peer, 5, 10);
        expect_end(&reading, &peer);
        outq_release(&q);
        peer_close(&peer);
}

TEST(a_stream_of_lines_is_one_line)
{
        struct peer peer;
        struct outq q;
        peer_open(&peer);
        outq_init(&q, FRAMING_LINES, 64 * MIB);
        outq_stream_begin(&q);
        struct buf piece = buf_with(2, 0, 50);
        outq_stream_piece(&q, &piece, false);
        fill(outq_begin(&q, 5), 3, 5);
        eq_int(outq_end(&q), 0);
        piece = buf_with(2, 50, 50);
        outq_stream_piece(&q, &piece, true);
        (void)send_all(&q, &peer, 64 * KIB);
        eq_u64(peer.wire.n, 100 + 1 + 5 + 1);
        ok(is_message(slice_from(peer.wire.p, 100), 2, 100));
        ok(peer.wire.p[100] == '\n' && peer.wire.p[106] == '\n');
        outq_release(&q);
        peer_close(&peer);
}

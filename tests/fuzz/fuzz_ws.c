/* fuzz_ws: the decoder gives the same messages and control frames for any split of the input, and gives
 * back what the encoder wrote. The first two bytes choose side, limit and splits; the rest is the stream,
 * and then a payload. */
#include "base/buf.h"
#include "base/mem.h"
#include "wire/ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LOG_MAX (1u << 24)

/* A small generator of splits (the multiplier is Knuth's). */
static size_t next_step(uint64_t *state, size_t max)
{
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        return 1 + (size_t)(*state >> 33) % max;
}

static void log_entry(struct buf *out, int kind, int code, struct slice payload)
{
        must(buf_printf(out, "%d %d %zu:", kind, code, payload.n) >= 0);
        must(buf_append(out, payload) >= 0);
}

static void data_take(const struct ws_piece *piece, bool *in_message, struct buf *message, struct buf *out)
{
        must(piece->opcode == WS_TEXT || piece->opcode == WS_BINARY);
        must(piece->message_start == !*in_message);
        must(!piece->message_end || (piece->frame_left == 0 && !piece->is_fragmented));
        must(buf_append(message, piece->payload) >= 0);
        *in_message = !piece->message_end;
        if (piece->message_end) {
                log_entry(out, (int)piece->opcode, 0, buf_slice(message));
                buf_truncate(message, 0);
        }
}

/* Decodes a copy of `in` that grows by 1 to `max_step` bytes at a time (0: all at once); notes the whole messages, and how
 * decoding ended. */
static void decode(struct slice in, bool expects_mask, uint64_t max_message, uint64_t seed, size_t max_step,
                   struct buf *out)
{
        _free_ char *copy = mem_alloc(MAX(in.n, 1u));
        _buf_ struct buf message = BUF_INIT(LOG_MAX);
        struct ws_decoder d;
        struct ws_piece piece;
        size_t at = 0, avail = max_step ? 0 : in.n, used;
        bool in_message = false;

        if (in.n)
                memcpy(copy, in.p, in.n);
        ws_decoder_init(&d, expects_mask, max_message);
        for (;;) {
                switch (ws_next(&d, copy + at, avail - at, &used, &piece)) {
                case WS_DATA:
                        must(message.n + piece.payload.n + piece.frame_left <= max_message);
                        data_take(&piece, &in_message, &message, out);
                        break;
                case WS_CONTROL:
                        must(piece.payload.n <= 125);
                        log_entry(out, (int)piece.opcode, piece.close_code, piece.payload);
                        break;
                case WS_FAIL:
                        log_entry(out, -1, piece.close_code, S(""));
                        return;
                default:
                        must(used == 0);
                        if (avail == in.n) {
                                log_entry(out, -2, d.in_frame, buf_slice(&message));
                                return;
                        }
                        avail += next_step(&seed, MIN(max_step, in.n - avail));
                        continue;
                }
                must(used <= avail - at);
                must(piece.payload.p >= copy + at && piece.payload.p + piece.payload.n == copy + at + used);
                at += used;
        }
}

static void frame_write(struct buf *out, enum ws_opcode opcode, bool fin, struct slice payload,
                        const uint8_t *key)
{
        char head[WS_HEAD_MAX + 4];
        size_t n = key ? ws_head_write_masked(head, opcode, fin, payload.n, key)
                       : ws_head_write(head, opcode, fin, payload.n);
        unsigned key_at = 0;

        must(n == ws_head_size(payload.n) + (key ? 4 : 0));
        must(buf_append(out, slice_from(head, n)) >= 0);
        must(buf_append(out, payload) >= 0);
        if (key)
                ws_mask(out->p + out->n - payload.n, payload.n, key, &key_at);
}

/* Writes `in` as one binary message in fragments with pings between them, and reads it back. */
static void round_trip(struct slice in, bool masked, uint64_t seed)
{
        _buf_ struct buf wire = BUF_INIT(LOG_MAX), got = BUF_INIT(LOG_MAX), expect = BUF_INIT(LOG_MAX);
        uint64_t state = seed;
        size_t at = 0;

        for (bool is_last = false; !is_last;) {
                uint8_t key[4];
                size_t n = next_step(&state, MIN(in.n - at + 1, 300u)) - 1;
                struct slice ping = slice_from(in.p + at, MIN(n, 125u));

                is_last = at + n == in.n;
                memcpy(key, &state, sizeof(key));
                frame_write(&wire, wire.n ? WS_CONTINUATION : WS_BINARY, is_last, slice_from(in.p + at, n),
                            masked ? key : NULL);
                if (!is_last) {
                        frame_write(&wire, WS_PING, true, ping, masked ? key : NULL);
                        log_entry(&expect, WS_PING, 0, ping);
                }
                at += n;
        }
        log_entry(&expect, WS_BINARY, 0, in);
        log_entry(&expect, -2, 0, S(""));

        decode(buf_slice(&wire), masked, in.n, seed, 100, &got);
        must(slice_eq(buf_slice(&got), buf_slice(&expect)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const uint64_t limits[] = { 8, 200, 70000, UINT64_MAX };
        static const size_t steps[] = { 1, 7, 1000 };

        if (size < 2)
                return 0;
        bool masked = data[0] & 1;
        uint64_t limit = limits[data[0] >> 1 & 3], seed = data[1];
        struct slice in = slice_from(data + 2, size - 2);
        _buf_ struct buf whole = BUF_INIT(LOG_MAX);

        decode(in, masked, limit, seed, 0, &whole);
        for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
                _buf_ struct buf split = BUF_INIT(LOG_MAX);
                decode(in, masked, limit, seed, steps[i], &split);
                must(slice_eq(buf_slice(&whole), buf_slice(&split)));
        }
        round_trip(in, masked, seed);
        return 0;
}

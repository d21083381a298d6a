/* fuzz_frames: frames become the same lines for any split of the input, and lines become frames from which a client reads the same
 * lines. The first byte chooses the direction, the second the splits. */
#include "base/buf.h"
#include "base/mem.h"
#include "door/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LOG_MAX (1u << 24)

/* Turns a copy of the input, `step` bytes at a time. Returns whether all of it was accepted. */
static bool turn(struct frames *f, int (*fn)(void *, char *, size_t, struct buf *), struct slice in,
                 size_t step, struct buf *out)
{
        for (size_t at = 0; at < in.n; at += step) {
                size_t n = MIN(step, in.n - at), before = out->n;
                _free_ char *copy = slice_dup(slice_from(in.p + at, n));
                if (fn(f, copy, n, out) < 0)
                        return false;
                must(out->n - before <= DUCT_TURNED_BYTES);
        }
        return true;
}

/* The lines of a client's frames that are complete: how much of a broken message was passed on depends on the splits. */
static bool to_lines(struct slice in, size_t step, struct buf *out, struct buf *answers)
{
        struct duct back;
        struct frames f;
        duct_init(&back, -1, -1);
        frames_init(&f, &back);
        bool is_good = turn(&f, frames_to_lines, in, step, out);
        while (out->n > 0 && out->p[out->n - 1] != '\n')
                buf_truncate(out, out->n - 1);
        must(buf_append(answers, buf_slice(&back.bytes)) == 0);
        frames_release(&f);
        duct_release(&back);
        return is_good;
}

/* What a client reads from the frames, a line for each message; false when it reads text that is no UTF-8, which it refuses. */
static bool read_back(struct buf *frames, struct buf *out)
{
        struct ws_decoder d;
        struct ws_piece piece;
        size_t at = 0, used;
        ws_decoder_init(&d, false, LOG_MAX);
        for (;;) {
                enum ws_event event = ws_next(&d, frames->p + at, frames->n - at, &used, &piece);
                at += used;
                if (event == WS_MORE)
                        return true;
                if (event == WS_FAIL) {
                        must(piece.close_code == WS_CLOSE_BAD_DATA);
                        return false;
                }
                must(event == WS_DATA && piece.opcode == WS_TEXT);
                must(buf_append(out, piece.payload) == 0);
                if (piece.message_end)
                        must(buf_append_char(out, '\n') == 0);
        }
}

static void from_lines(struct slice in, size_t step)
{
        _buf_ struct buf wire = BUF_INIT(LOG_MAX), got = BUF_INIT(LOG_MAX), expect = BUF_INIT(LOG_MAX);
        struct duct back;
        struct frames f;
        duct_init(&back, -1, -1);
        frames_init(&f, &back);
        must(turn(&f, frames_from_lines, in, step, &wire));
        must(back.bytes.n == 0);
        frames_release(&f);
        duct_release(&back);
        if (!read_back(&wire, &got))
                return;
        bool is_new = true;
        for (size_t i = 0; i < in.n; i++) {
                if (is_new && strchr(" \t\r\n", in.p[i]) && in.p[i])
                        continue;
                must(buf_append_char(&expect, in.p[i]) == 0);
                is_new = in.p[i] == '\n';
        }
        must(slice_eq(buf_slice(&got), buf_slice(&expect)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size < 2 || size > DUCT_READ_BYTES)
                return 0;
        struct slice in = slice_from(data + 2, size - 2);
        size_t step = 1 + data[1] % 64;
        if (data[0] & 1) {
                from_lines(in, step);
                return 0;
        }
        _buf_ struct buf whole = BUF_INIT(LOG_MAX), split = BUF_INIT(LOG_MAX);
        _buf_ struct buf whole_answers = BUF_INIT(LOG_MAX), split_answers = BUF_INIT(LOG_MAX);
        bool is_good = to_lines(in, DUCT_READ_BYTES, &whole, &whole_answers);
        must(to_lines(in, step, &split, &split_answers) == is_good);
        must(slice_eq(buf_slice(&whole), buf_slice(&split)));
        must(slice_eq(buf_slice(&whole_answers), buf_slice(&split_answers)));
        return 0;
}

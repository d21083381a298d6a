/* Tests of door/frames. */
#include "door/frames.h"

#include "unit.h"

struct rig {
        struct duct back;
        struct frames frames;
        struct buf out;
};

static void rig_begin(struct rig *r)
{
        *r = (struct rig){ .out = BUF_INIT(1024 * 1024) };
        duct_init(&r->back, -1, -1);
        frames_init(&r->frames, &r->back);
}

static void rig_end(struct rig *r)
{
        frames_release(&r->frames);
        duct_release(&r->back);
        buf_release(&r->out);
}

/* Appends a frame as a client sends it. */
static void add(struct buf *b, enum ws_opcode opcode, bool fin, struct slice payload)
{
        static const uint8_t key[4] = { 1, 2, 3, 4 };
        char head[WS_HEAD_MAX + 4], copy[256];
        unsigned at = 0;
        size_t n = ws_head_write_masked(head, opcode, fin, payload.n, key);
        memcpy(copy, payload.p, payload.n);
        ws_mask(copy, payload.n, key, &at);
        eq_int(buf_append(b, slice_from(head, n)), 0);
        eq_int(buf_append(b, slice_from(copy, payload.n)), 0);
}

static int feed(struct rig *r, struct slice in, size_t step)
{
        int result = 0;
        for (size_t at = 0; result == 0 && at < in.n; at += step) {
                char piece[256];
                size_t n = MIN(step, in.n - at);
                memcpy(piece, in.p + at, n);
                result = frames_to_lines(&r->frames, piece, n, &r->out);
        }
        return result;
}

TEST(messages_become_lines_however_they_are_split)
{
        _buf_ struct buf in = BUF_INIT(4096);
        add(&in, WS_TEXT, true, S("{\"a\":\r\n1}"));
        add(&in, WS_TEXT, false, S("{\"b\""));
        add(&in, WS_PING, true, S("still there?"));
        add(&in, WS_CONTINUATION, true, S(":2}"));
        for (size_t step = 1; step <= in.n; step++) {
                struct rig r;
                rig_begin(&r);
                eq_int(feed(&r, buf_slice(&in), step), 0);
                eq_slice(buf_slice(&r.out), S("{\"a\":  1}\n{\"b\":2}\n"));
                eq_slice(buf_slice(&r.back.bytes), S("\x8a\x0cstill there?"));
                rig_end(&r);
        }
}

TEST(a_close_is_answered_and_nothing_follows_it)
{
        struct rig r;
        _buf_ struct buf in = BUF_INIT(4096);
        char line[] = "{}\n";
        rig_begin(&r);
        add(&in, WS_CLOSE, true, S("\x03\xe8"));
        ok(feed(&r, buf_slice(&in), in.n) < 0);
        eq_slice(buf_slice(&r.back.bytes), S("\x88\x02\x03\xe8"));
        ok(frames_from_lines(&r.frames, line, 3, &r.out) < 0);
        eq_u64(r.out.n, 0);
        rig_end(&r);
}

TEST(a_broken_frame_closes_with_its_code)
{
        struct rig r;
        rig_begin(&r);
        ok(feed(&r, S("\x81\x02{}"), 4) < 0); /* not masked */
        eq_slice(buf_slice(&r.back.bytes), S("\x88\x02\x03\xea"));
        rig_end(&r);
}

TEST(a_client_that_pings_and_does_not_read_gets_no_more_pongs)
{
        struct rig r;
        char much[4096] = { 0 };
        _buf_ struct buf in = BUF_INIT(4096);
        rig_begin(&r);
        while (duct_waiting(&r.back) < DUCT_BYTES)
                eq_int(duct_put(&r.back, slice_from(much, sizeof(much))), 0);
        size_t before = duct_waiting(&r.back);
        add(&in, WS_PING, true, S("x"));
        eq_int(feed(&r, buf_slice(&in), in.n), 0);
        eq_u64(duct_waiting(&r.back), before);
        rig_end(&r);
}

TEST(lines_become_messages_piece_by_piece)
{
        struct rig r;
        char first[] = "\r\n {\"a\":1}\n\n{\"b\"", second[] = ":2}\r", third[] = "\n";
        rig_begin(&r);
        eq_int(frames_from_lines(&r.frames, first, strlen(first), &r.out), 0);
        eq_slice(buf_slice(&r.out), S("\x81\x07{\"a\":1}\x01\x04{\"b\""));
        buf_truncate(&r.out, 0);
        eq_int(frames_from_lines(&r.frames, second, strlen(second), &r.out), 0);
        eq_int(frames_from_lines(&r.frames, third, strlen(third), &r.out), 0);
        eq_slice(buf_slice(&r.out), S("\x00\x04:2}\r\x80\x00"));
        rig_end(&r);
}

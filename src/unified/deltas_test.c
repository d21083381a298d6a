/* deltas_test: how output is cut into pieces for events. */
#include "unified/deltas.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "base/utf8.h"
#include "unit.h"

struct seen {
        struct buf all; /* the pieces, each with a bar behind it */
        size_t count, longest;
};

static void on_piece(void *arg, struct slice piece)
{
        struct seen *s = arg;
        ok(utf8_is_valid(piece));
        ok(piece.n > 0);
        s->count++;
        s->longest = MAX(s->longest, piece.n);
        must(buf_append(&s->all, piece) == 0 && buf_append_char(&s->all, '|') == 0);
}

static void eq_pieces(const struct slice *reads, size_t count, const char *pieces)
{
        struct deltas d = { 0 };
        struct seen s = { .all = BUF_INIT(1 << 20) };
        for (size_t i = 0; i < count; i++)
                deltas_feed(&d, reads[i], on_piece, &s);
        deltas_flush(&d, on_piece, &s);
        eq_str(s.all.p, pieces);
        buf_release(&s.all);
}

TEST(whole_characters_are_given_out_at_once)
{
        eq_pieces((struct slice[]){ S("ab"), S("\xc3\xa9") }, 2, "ab|\xc3\xa9|");
}

TEST(a_split_character_waits_for_its_other_bytes)
{
        eq_pieces((struct slice[]){ S("a\xe2"), S("\x82"),
                                    S("\xac"
                                      "b") },
                  3,
                  "a|\xe2\x82\xac"
                  "b|");
        eq_pieces((struct slice[]){ S("\xf0"), S("\x9f"), S("\x98"), S("\x80") }, 4, "\xf0\x9f\x98\x80|");
}

TEST(bytes_of_no_character_become_replacements)
{
        eq_pieces((struct slice[]){ S("\xff") }, 1, "\xef\xbf\xbd|");
        eq_pieces((struct slice[]){ S("\xe2"), S("\x28") }, 2, "\xef\xbf\xbd(|");
        eq_pieces((struct slice[]){ S("\xe2\x82"), S("\xe2\x82\xac") }, 2, "\xef\xbf\xbd\xe2\x82\xac|");
}

TEST(what_is_left_at_the_end_becomes_one_replacement)
{
        eq_pieces((struct slice[]){ S("a\xf0\x9f\x98") }, 1, "a|\xef\xbf\xbd|");
}

TEST(a_piece_has_at_most_8192_bytes_and_no_half_character)
{
        static char bytes[3 * DELTA_BYTES_MAX];
        struct deltas d = { 0 };
        struct seen s = { .all = BUF_INIT(1 << 20) };
        for (size_t i = 0; i < sizeof(bytes); i += 3)
                memcpy(bytes + i, "\xe2\x82\xac", 3);
        deltas_feed(&d, slice_from(bytes, sizeof(bytes)), on_piece, &s);
        eq_u64(s.count, 4); /* 8192 is no multiple of 3: the last two bytes of each piece stay empty */
        eq_u64(s.longest, DELTA_BYTES_MAX - 2);
        buf_release(&s.all);
}

TEST(after_10000_pieces_the_rest_is_dropped)
{
        struct deltas d = { 0 };
        struct seen s = { .all = BUF_INIT(1 << 20) };
        for (size_t i = 0; i < DELTAS_MAX + 10; i++)
                deltas_feed(&d, S("x"), on_piece, &s);
        deltas_feed(&d, S("\xe2"), on_piece, &s);
        deltas_flush(&d, on_piece, &s);
        eq_u64(s.count, 10000);
        buf_release(&s.all);
}

TEST(every_split_gives_the_same_text)
{
        static const char text[] = "a\xc3\xa9\xff\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x82z";
        for (size_t at = 0; at < sizeof(text) - 1; at++) {
                struct deltas d = { 0 };
                struct seen s = { .all = BUF_INIT(1 << 10) };
                deltas_feed(&d, slice_from(text, at), on_piece, &s);
                deltas_feed(&d, slice_from(text + at, sizeof(text) - 1 - at), on_piece, &s);
                deltas_flush(&d, on_piece, &s);
                for (size_t i = 0; i < s.all.n; i++)
                        while (s.all.p[i] == '|') {
                                memmove(s.all.p + i, s.all.p + i + 1, s.all.n - i);
                                s.all.n--;
                        }
                eq_str(s.all.p, "a\xc3\xa9\xef\xbf\xbd\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbdz");
                buf_release(&s.all);
        }
}

/* tail_test: which output is kept, and that it begins with a whole line. */
#include "unit.h"

#include "base/mem.h"
#include "cmd/tail.h"

/* Returns a tail to which `count` numbered lines of 16 bytes were added, in pieces of `piece` bytes. */
static struct tail *filled(size_t count, size_t piece)
{
        struct tail *t = mem_new(struct tail);
        char *all = mem_alloc(count * 16 + 1);
        for (size_t i = 0; i < count; i++) {
                char line[32];
                (void)snprintf(line, sizeof(line), "line %10zu\n", i);
                memcpy(all + i * 16, line, 16);
        }
        for (size_t at = 0; at < count * 16; at += piece)
                tail_add(t, slice_from(all + at, MIN(piece, count * 16 - at)));
        free(all);
        return t;
}

TEST(little_output_is_kept_whole)
{
        _free_ struct tail *t = filled(3, 5);
        eq_slice(tail_text(t), S("line          0\nline          1\nline          2\n"));
        ok(!tail_is_open(t));
        tail_add(t, S("x"));
        ok(tail_is_open(t));
        tail_add(t, S(""));
        ok(tail_is_open(t));
}

TEST(of_much_output_the_newest_whole_lines_are_kept)
{
        static const size_t pieces[] = { 1, 7, 16, 4096, LIMIT_REFUSED_TEXT_BYTES, 1 << 20 };
        for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
                _free_ struct tail *t = filled(20000, pieces[i]);
                struct slice text = tail_text(t);
                ok(text.n > LIMIT_REFUSED_TEXT_BYTES - 32 && text.n <= LIMIT_REFUSED_TEXT_BYTES);
                ok(text.n % 16 == 0 && slice_starts(text, S("line ")));
                eq_slice(slice_from(text.p + text.n - 16, 16), S("line      19999\n"));
        }
}

TEST(one_line_that_is_too_long_leaves_nothing)
{
        _free_ struct tail *t = mem_new(struct tail);
        char piece[1000];
        ok(!tail_is_open(t));
        memset(piece, 'a', sizeof(piece));
        for (int i = 0; i < 200; i++)
                tail_add(t, slice_from(piece, sizeof(piece)));
        eq_u64(tail_text(t).n, 0);
        tail_add(t, S("\nnew"));
        eq_slice(tail_text(t), S("new"));
}

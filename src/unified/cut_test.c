/* cut_test: how output is rendered, and how it is cut for a model. */
#include "unified/cut.h"

#include "unit.h"

#include <stdio.h>

#define ROOM 65536

static void eq_rendered(struct slice bytes, size_t head, uint64_t omitted, const char *text)
{
        _buf_ struct buf out = BUF_INIT(ROOM);
        struct cut_output output = { .bytes = bytes, .head_bytes = head, .omitted_bytes = omitted };
        eq_int(cut_render(&out, &output), 0);
        eq_str(out.p, text);
}

static void eq_middle(const char *text, enum cut_unit unit, uint64_t bytes, const char *cut)
{
        _buf_ struct buf out = BUF_INIT(ROOM);
        eq_int(cut_middle(&out, slice_from_str(text), (struct cut_budget){ .unit = unit, .bytes = bytes }),
               0);
        eq_str(out.p, cut);
}

static void eq_model(struct cut_output output, uint64_t bytes, const char *text)
{
        _buf_ struct buf rendered = BUF_INIT(ROOM), out = BUF_INIT(ROOM);
        eq_int(cut_render(&rendered, &output), 0);
        eq_int(cut_for_model(&out, buf_slice(&rendered), &output, (struct cut_budget){ .bytes = bytes }), 0);
        eq_str(out.p, text);
}

TEST(tokens_are_four_bytes_rounded_up)
{
        eq_u64(cut_tokens(0), 0);
        eq_u64(cut_tokens(1), 1);
        eq_u64(cut_tokens(4), 1);
        eq_u64(cut_tokens(5), 2);
        eq_u64(cut_tokens(UINT64_MAX), UINT64_MAX / 4 + 1);
        eq_u64(cut_token_bytes(3), 12);
        eq_u64(cut_token_bytes(UINT64_MAX / 2), UINT64_MAX);
}

TEST(output_is_rendered_with_a_line_at_the_seam)
{
        eq_rendered(S(""), 0, 0, "");
        eq_rendered(S("ab"), 1, 0, "ab");
        eq_rendered(S("ab"), 1, 7, "a\n... 7 bytes omitted ...\nb");
        eq_rendered(S(""), 0, 7, "\n... 7 bytes omitted ...\n");
}

TEST(a_character_that_the_seam_cuts_is_replaced_on_both_sides)
{
        eq_rendered(S("\xc3\xa9"), 1, 1, "\xef\xbf\xbd\n... 1 bytes omitted ...\n\xef\xbf\xbd");
}

TEST(bytes_that_are_no_utf8_are_replaced)
{
        eq_rendered(S("a\xff"
                      "b"),
                    0, 0,
                    "a\xef\xbf\xbd"
                    "b");
        eq_rendered(S("\xe2\x82"), 0, 0,
                    "\xef\xbf\xbd"); /* one U+FFFD replaces the beginning of a character */
        eq_rendered(S("\xe2\x82\xe2\x82\xac"), 0, 0, "\xef\xbf\xbd\xe2\x82\xac");
        eq_rendered(S("\xf0\x9f\x98\x80"), 0, 0, "\xf0\x9f\x98\x80");
        eq_rendered(S("\xed\xa0\x80"), 0, 0, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(a_text_within_the_budget_is_not_cut)
{
        eq_middle("12345678", CUT_TOKENS, 8, "12345678");
        eq_middle("", CUT_TOKENS, 0, "");
}

TEST(the_middle_goes)
{
        eq_middle("123456789", CUT_TOKENS, 4, "12…2 tokens truncated…89");
        eq_middle("123456789", CUT_TOKENS, 5, "12…1 tokens truncated…789");
        eq_middle("123456789", CUT_BYTES, 4, "12…5 chars truncated…89");
}

TEST(with_a_budget_of_nothing_only_the_mark_stays)
{
        eq_middle("123456789", CUT_TOKENS, 0, "…3 tokens truncated…");
        eq_middle("123456789", CUT_BYTES, 0, "…9 chars truncated…");
}

TEST(cuts_are_made_between_characters)
{
        /* Each é has two bytes. Three from the start and three from the end would cut one on each side. */
        eq_middle("éééééé", CUT_BYTES, 6, "é…4 chars truncated…é");
        eq_middle("éééééé", CUT_TOKENS, 7, "é…2 tokens truncated…éé");
}

TEST(a_cut_output_has_two_lines_before_it)
{
        struct cut_output output = { .bytes = S("one\ntwo\nthree") };
        eq_model(output, 13, "one\ntwo\nthree");
        eq_model(output, 4,
                 "Warning: truncated output (original token count: 4)\nTotal output lines: 3\n\non…3 tokens "
                 "truncated…ee");
        output.bytes = S("one\ntwo\n");
        eq_model(output, 0,
                 "Warning: truncated output (original token count: 2)\nTotal output lines: 2\n\n…2 tokens "
                 "truncated…");
}

TEST(the_second_line_tells_of_bytes_that_the_buffer_lost)
{
        struct cut_output output = { .bytes = S("aaaabbbb"), .head_bytes = 4, .omitted_bytes = 92 };
        eq_model(output, 4,
                 "Warning: truncated output (original token count: 25)\n... 92 bytes omitted ...\n\naa…8 "
                 "tokens "
                 "truncated…bb");
}

/* lines_test: ends of lines in every cut of the reads, and lines that are longer than the buffer. */
#include "hunk/lines.h"

#include "hunk/text.h"
#include "hunk/text_rig.h"

#include "unit.h"

static void begin(struct lines *l, struct arena *a, const struct reader *r, size_t longest, size_t room)
{
        struct err err = ERR_INIT;

        eq_int(lines_begin(l, a, r, longest, room, &err), 0);
}

static void eq_line(struct lines *l, struct slice text, uint64_t offset, uint64_t next)
{
        struct err err = ERR_INIT;
        struct line line;

        eq_int(lines_next(l, &line, &err), 1);
        eq_slice(line.text, text);
        eq_u64(line.offset, offset);
        eq_u64(line.next, next);
        eq_int(line.cut, 0);
}

TEST(lines_end_with_lf_crlf_or_a_lone_cr_in_reads_of_any_size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct line line;
        struct lines l;

        for (size_t step = 1; step < 16; step++) {
                struct drip d = { .text = S("a\r\nbc\n\r\r\n\nd\re"), .step = step };
                struct reader r = drip_reader(&d);
                begin(&l, &a, &r, 4, LINES_ROOM);
                for (int walk = 0; walk < 2; walk++) {
                        eq_line(&l, S("a"), 0, 3);
                        eq_line(&l, S("bc"), 3, 6);
                        eq_line(&l, S(""), 6, 7);
                        eq_line(&l, S(""), 7, 9);
                        eq_line(&l, S(""), 9, 10);
                        eq_line(&l, S("d"), 10, 12);
                        eq_line(&l, S("e"), 12, 13);
                        ok(l.is_open);
                        eq_int(lines_next(&l, &line, &err), 0);
                        eq_slice(l.terminator, S("\r\n"));
                        eq_int(lines_rewind(&l, &err), 0);
                }
        }
}

TEST(a_cr_at_the_very_end_is_an_end_of_a_line)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct line line;
        struct lines l;
        struct drip d = { .text = S("a\r"), .step = 1 };
        struct reader r = drip_reader(&d);

        begin(&l, &a, &r, 0, LINES_ROOM_MIN);
        eq_line(&l, S("a"), 0, 2);
        ok(!l.is_open);
        eq_slice(l.terminator, S("\r"));
        eq_int(lines_next(&l, &line, &err), 0);
}

TEST(an_empty_text_has_no_lines)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct line line;
        struct lines l;
        struct drip d = { .text = S(""), .step = 1 };
        struct reader r = drip_reader(&d);

        begin(&l, &a, &r, 0, LINES_ROOM_MIN);
        eq_int(lines_next(&l, &line, &err), 0);
        ok(!l.terminator.p && !l.is_open);
}

/* Each line that does not fit, and what is left of it. */
TEST(a_line_that_does_not_fit_loses_only_white_space)
{
        static const struct {
                const char *line;
                const char *left;
                unsigned cut;
        } cases[] = {
                { "abc                                ", "abc", 1 },
                { " ab                                ", " ab", 1 },
                { "                                abc", "abc", 2 },
                { "                 abc               ", "abc", 2 },
                { "                                   ", "", 1 },
                { "abc                               d", "", LINE_TOO_LONG },
                { "abcdefghijklmnopqrstuvwxyzabcdefghi", "", LINE_TOO_LONG },
                { "                 abcdefghijklmnopqr", "", LINE_TOO_LONG },
                { "abc\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80",
                  "abc", 1 },
                { "\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80\xe3\x80\x80 abc",
                  "abc", 2 },
                { "ab\xe2\x80                        \x80", "", LINE_TOO_LONG },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                for (size_t step = 1; step < 40; step++) {
                        _arena_ struct arena a = ARENA_INIT;
                        struct err err = ERR_INIT;
                        struct line line;
                        struct lines l;
                        const char *text = arena_printf(&a, "%s\r\nx", cases[i].line);
                        struct drip d = { .text = slice_from_str(text), .step = step };
                        struct reader r = drip_reader(&d);
                        begin(&l, &a, &r, 4, LINES_ROOM_MIN);
                        eq_int(lines_next(&l, &line, &err), 1);
                        eq_int(line.cut, cases[i].cut);
                        /* What is cut at the start is compared without white space at either end: some may be left. */
                        eq_slice(line.cut == 2 ? text_trim(line.text) : line.text,
                                 slice_from_str(cases[i].left));
                        eq_u64(line.next, strlen(text) - 1);
                        eq_line(&l, S("x"), strlen(text) - 1, strlen(text));
                }
        }
}

TEST(a_reader_that_fails_ends_the_walk)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct line line;
        struct lines l;
        struct drip d = { .text = S("a\nb\nc\n"), .step = 1, .fail_at = 3 };
        struct reader r = drip_reader(&d);

        begin(&l, &a, &r, 4, LINES_ROOM);
        eq_line(&l, S("a"), 0, 2);
        eq_int(lines_next(&l, &line, &err), -5);
        eq_str(err.text, "dripped out");
}

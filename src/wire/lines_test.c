/* lines_test: the cutting of a byte stream into lines, in any split. */
#include "base/buf.h"
#include "base/mem.h"
#include "unit.h"
#include "wire/lines.h"

#include <errno.h>

/* Feeds `in` as a reader would: first up to `split`, then `step` bytes at a time, dropping what was
 * consumed. Each line is shown in brackets, the end as "eof" or "too long". */
static void show(struct buf *out, struct slice in, size_t max_line, size_t split, size_t step)
{
        struct line_decoder d;
        size_t at = 0, avail = MIN(split, in.n);

        line_decoder_init(&d, max_line);
        for (;;) {
                _free_ char *exact = slice_dup(slice_from(in.p + at, avail - at));
                struct slice line;
                bool at_eof = avail == in.n;
                ssize_t r = line_next(&d, slice_from(exact, avail - at), at_eof, &line);

                if (r == -EMSGSIZE) {
                        eq_int(buf_printf(out, "too long"), 0);
                        return;
                }
                ok(r >= 0 && (size_t)r <= avail - at);
                if (line.p) {
                        ok(r > 0);
                        ok(line.p >= exact && line.p + line.n <= exact + r);
                        eq_int(buf_printf(out, "[%.*s]", SLICE(line)), 0);
                }
                at += (size_t)r;
                if (r > 0)
                        continue;
                if (at_eof)
                        break;
                avail = MIN(avail + step, in.n);
        }
        eq_int(buf_printf(out, "eof"), 0);
        eq_u64(at, in.n);
}

static const struct {
        struct slice in;
        size_t max;
        const char *expect;
} cases[] = {
        { S(""), 10, "eof" },
        { S("a"), 10, "[a]eof" },
        { S("a\n"), 10, "[a]eof" },
        { S("a\nb"), 10, "[a][b]eof" },
        { S("a\nb\n"), 10, "[a][b]eof" },
        { S("a\r\nb\r\n"), 10, "[a][b]eof" },
        { S("a\r"), 10, "[a]eof" },
        { S("a\r\r\n"), 10, "[a\r]eof" },
        { S("a\rb\n"), 10, "[a\rb]eof" },
        { S("\n\n\na\n\n\n"), 10, "[a]eof" },
        { S("\r\n \r\n\t\n  "), 10, "eof" },
        { S("\r\r\n\ra\n"), 10, "[\ra]eof" },
        { S(" a \n"), 10, "[ a ]eof" },
        { S("\n"), 0, "eof" },
        { S("\r\n"), 0, "eof" },
        { S("a\n"), 0, "too long" },
        { S("abcd\n"), 4, "[abcd]eof" },
        { S("abcd\r\n"), 4, "[abcd]eof" },
        { S("abcd"), 4, "[abcd]eof" },
        { S("abcd\r"), 4, "[abcd]eof" },
        { S("abcde\n"), 4, "too long" },
        { S("abcde"), 4, "too long" },
        { S("abcd\re\n"), 4, "too long" },
        { S("abcd\r\r\n"), 4, "too long" },
        { S("ok\n\nabcde\n"), 4, "[ok]too long" },
        { S("     \n"), 4, "too long" }, /* a blank line takes memory too */
        { S("ab\ncd\nef\n"), 4, "[ab][cd][ef]eof" },
};

TEST(lines_are_the_same_for_every_split)
{
        for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
                for (size_t split = 0; split <= cases[c].in.n; split++) {
                        _buf_ struct buf at_once = BUF_INIT(4096), trickled = BUF_INIT(4096);

                        show(&at_once, cases[c].in, cases[c].max, split, cases[c].in.n);
                        eq_str(at_once.p, cases[c].expect);
                        show(&trickled, cases[c].in, cases[c].max, split, 1);
                        eq_str(trickled.p, cases[c].expect);
                }
        }
}

TEST(line_may_hold_nul_bytes)
{
        struct line_decoder d;
        struct slice line;

        line_decoder_init(&d, 10);
        eq_int(line_next(&d, S("a\0b\nc"), false, &line), 4);
        eq_slice(line, S("a\0b"));
}

TEST(blank_lines_alone_are_consumed_without_a_line)
{
        struct line_decoder d;
        struct slice line;

        line_decoder_init(&d, 10);
        eq_int(line_next(&d, S("\n \r\n{"), false, &line), 4);
        ok(!line.p);
        eq_int(line_next(&d, S("{"), false, &line), 0);
        eq_int(line_next(&d, S("{}\n"), false, &line), 3);
        eq_slice(line, S("{}"));
}

TEST(bytes_already_searched_are_not_searched_again)
{
        struct line_decoder d;
        struct slice line;

        line_decoder_init(&d, 100);
        eq_int(line_next(&d, S("abc"), false, &line), 0);
        eq_u64(d.scanned, 3);
        eq_int(line_next(&d, S("abcdef"), false, &line), 0);
        eq_u64(d.scanned, 6);
        eq_int(line_next(&d, S("abcdef\nxy"), false, &line), 7);
        eq_slice(line, S("abcdef"));
        eq_u64(d.scanned, 0);
}

TEST(too_long_is_said_before_the_line_ends)
{
        struct line_decoder d;
        struct slice line;

        line_decoder_init(&d, 3);
        eq_int(line_next(&d, S("abc"), false, &line), 0);
        eq_int(line_next(&d, S("abcd"), false, &line), -EMSGSIZE);
}

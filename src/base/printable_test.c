/* printable_test: what stays, what becomes an escape, and where a long text is cut. */
#include "base/printable.h"

#include "unit.h"

TEST(printable_text_stays_and_control_characters_become_escapes)
{
        static const struct {
                struct slice text;
                const char *expect;
        } rows[] = {
                { { "", 0 }, "" },
                { { NULL, 0 }, "" },
                { { " plain `text` \\x ", 17 }, " plain `text` \\x " },
                { { "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82", 15 },
                  "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82" },
                { { "a\0b", 3 }, "a\\x00b" },
                { { "\x1b[2J\r\n\t\x7f", 8 }, "\\x1b[2J\\x0d\\x0a\\x09\\x7f" },
                { { "\xc2\x9b\x32J", 4 }, "\\u{9b}2J" },
                { { "\xc2\xa0", 2 }, "\xc2\xa0" },
                { { "\xe2\x80\xaex\xe2\x80\xa8", 7 }, "\\u{202e}x\\u{2028}" },
                { { "\xff\xc3", 2 }, "\\xff\\xc3" },
                { { "\xed\xa0\x80", 3 }, "\\xed\\xa0\\x80" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(printable_text(&a, rows[i].text), rows[i].expect);
        }
}

TEST(a_long_text_is_cut_between_characters)
{
        _arena_ struct arena a = ARENA_INIT;
        char text[4 * PRINTABLE_BYTES_MAX];

        memset(text, 0x1b, sizeof(text));
        eq_u64(strlen(printable_text(&a, slice_from(text, sizeof(text)))), PRINTABLE_BYTES_MAX * 4 + 3);
        memset(text, 'x', sizeof(text));
        eq_u64(strlen(printable_text(&a, slice_from(text, PRINTABLE_BYTES_MAX))), PRINTABLE_BYTES_MAX);
        memcpy(text + PRINTABLE_BYTES_MAX - 1, "\xf0\x9f\x99\x82", 4);
        const char *cut = printable_text(&a, slice_from(text, sizeof(text)));
        eq_str(cut + PRINTABLE_BYTES_MAX - 1, "\xf0\x9f\x99\x82\u2026");
        eq_str(printable_str(&a, "a\nb"), "a\\x0ab");
}

TEST(json_is_one_line_of_the_same_meaning)
{
        static const struct {
                struct slice text;
                const char *want;
        } rows[] = {
                { { "{\n\t\"a\":\r1}", 10 }, "{  \"a\": 1}" },
                { { "\"\x7f\xc2\x9b\xe2\x80\xae\xc3\xa9\xf0\x9f\x98\x80\"", 14 },
                  "\"\\u007f\\u009b\\u202e\xc3\xa9\xf0\x9f\x98\x80\"" },
                { { "\"\xff\xc2\"", 4 }, "\"\\ufffd\\ufffd\"" },
                { { "", 0 }, "" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(printable_json(&a, rows[i].text), rows[i].want);
        }
}

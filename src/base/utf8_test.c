/* utf8_test: every boundary of the encoding, and every way to cut a text in two. */
#include "base/utf8.h"

#include "base/mem.h"

#include "unit.h"

/* A simple version of utf8_sequence to compare with: decodes first, then checks whether the code point may be written this way. */
static size_t sequence_slowly(const uint8_t *p, size_t n)
{
        size_t length = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

        if (length == 0 || length > n)
                return 0;
        uint32_t c = length == 1 ? p[0] : p[0] & (0x7fU >> length);
        for (size_t i = 1; i < length; i++) {
                if (p[i] >> 6 != 2)
                        return 0;
                c = c << 6 | (p[i] & 63U);
        }
        return c < least[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : length;
}

TEST(utf8_first_three_bytes_of_any_value_agree_with_a_slow_decoder)
{
        for (uint32_t v = 0; v < 1U << 24; v++) {
                uint8_t p[4] = { (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v, 0xbf };
                if (utf8_sequence((const char *)p, 4) != sequence_slowly(p, 4))
                        fail_msg("%02x %02x %02x bf", p[0], p[1], p[2]);
        }
}

TEST(utf8_fourth_byte_is_checked)
{
        for (unsigned c = 0; c < 256; c++) {
                const char p[4] = { (char)0xf0, (char)0x9f, (char)0x98, (char)c };
                eq_u64(utf8_sequence(p, 4), c >= 0x80 && c <= 0xbf ? 4 : 0);
        }
}

TEST(utf8_boundaries)
{
        static const struct slice good[] = {
                S(""),
                S("\0"),
                S("\x7f"),
                S("\xc2\x80"),
                S("\xdf\xbf"),
                S("\xe0\xa0\x80"),
                S("\xed\x9f\xbf"),
                S("\xee\x80\x80"),
                S("\xef\xbf\xbf"),
                S("\xf0\x90\x80\x80"),
                S("\xf4\x8f\xbf\xbf"),
        };
        static const struct slice bad[] = {
                S("\x80"),
                S("\xbf"),
                S("\xc0\x80"),
                S("\xc1\xbf"),
                S("\xc2"),
                S("\xc2\x41"),
                S("\xe0\x80\x80"),
                S("\xe0\x9f\xbf"),
                S("\xed\xa0\x80"),
                S("\xed\xbf\xbf"),
                S("\xe2\x82"),
                S("\xf0\x80\x80\x80"),
                S("\xf0\x8f\xbf\xbf"),
                S("\xf4\x90\x80\x80"),
                S("\xf5\x80\x80\x80"),
                S("\xf8\x88\x80\x80\x80"),
                S("\xfe"),
                S("\xff"),
                S("\xf0\x9f\x98"),
        };

        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                ok(utf8_is_valid(good[i]));
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                ok(!utf8_is_valid(bad[i]));
        eq_u64(utf8_sequence("", 0), 0);
        eq_u64(utf8_sequence("\xe2\x82\xac", 2), 0);
        eq_u64(utf8_sequence("\xe2\x82\xac", 3), 3);
}

TEST(utf8_a_bad_byte_is_found_at_any_place_of_a_long_text)
{
        for (size_t n = 1; n <= 100; n++) {
                _free_ char *text = mem_alloc(n);
                memset(text, 'a', n);
                ok(utf8_is_valid(slice_from(text, n)));
                for (size_t at = 0; at < n; at++) {
                        text[at] = (char)0xff;
                        ok(!utf8_is_valid(slice_from(text, n)));
                        text[at] = 'a';
                }
        }
}

TEST(utf8_every_split_of_a_text_is_accepted)
{
        const struct slice text =
                S("plain ASCII that is longer than a word, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 and "
                  "\xf4\x8f\xbf\xbf\xed\x9f\xbf\xc2\x80 the end \xe2\x82\xac");

        for (size_t i = 0; i <= text.n; i++) {
                for (size_t k = i; k <= text.n; k++) {
                        uint32_t st = 0;
                        ok(utf8_feed(&st, slice_from(text.p, i)));
                        eq_int(utf8_is_complete(st), utf8_is_valid(slice_from(text.p, i)));
                        ok(utf8_feed(&st, slice_from(text.p + i, k - i)));
                        ok(utf8_feed(&st, slice_from(text.p + k, text.n - k)));
                        ok(utf8_is_complete(st));
                }
        }
}

TEST(utf8_every_split_of_a_bad_text_is_refused)
{
        static const struct slice bad[] = {
                S("a\xed\xa0\x80z"), S("a\xf4\x90\x80\x80z"), S("a\xe0\x80\x80z"),
                S("a\xf0\x9f\x98z"), S("a\xc3\xa4\xa4z"),
        };

        for (size_t b = 0; b < ARRAY_LEN(bad); b++) {
                for (size_t i = 0; i <= bad[b].n; i++) {
                        uint32_t st = 0;
                        bool is_good = utf8_feed(&st, slice_from(bad[b].p, i)) &&
                                       utf8_feed(&st, slice_from(bad[b].p + i, bad[b].n - i));
                        ok(!is_good);
                }
        }
}

TEST(utf8_a_text_cut_inside_a_character_is_not_complete)
{
        uint32_t st = 0;

        ok(utf8_feed(&st, S("\xe2")));
        ok(!utf8_is_complete(st));
        ok(utf8_feed(&st, slice_from(NULL, 0)));
        ok(utf8_feed(&st, S("\x82\xac")));
        ok(utf8_is_complete(st));
}

TEST(characters_are_written_in_their_shortest_form)
{
        static const struct {
                uint32_t c;
                struct slice want;
        } rows[] = {
                { 0, S("\0") },
                { 0x7f, S("\x7f") },
                { 0x80, S("\xc2\x80") },
                { 0x7ff, S("\xdf\xbf") },
                { 0x800, S("\xe0\xa0\x80") },
                { 0xffff, S("\xef\xbf\xbf") },
                { 0x10000, S("\xf0\x90\x80\x80") },
                { 0x10ffff, S("\xf4\x8f\xbf\xbf") },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char bytes[4];
                size_t n = utf8_encode(rows[i].c, bytes);
                eq_slice(slice_from(bytes, n), rows[i].want);
                eq_u64(utf8_sequence(bytes, n), n);
        }
}

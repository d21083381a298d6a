/* text_test: white space and look-alikes, one by one. */
#include "hunk/text.h"

#include "base/utf8.h"

#include "unit.h"

static bool is_space(uint32_t c)
{
        return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
               (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
               c == 0x3000;
}

TEST(white_space_is_what_unicode_says)
{
        for (uint32_t c = 0; c <= 0x10ffff; c++) {
                char text[6] = "x";
                if (c >= 0xd800 && c < 0xe000)
                        continue;
                size_t n = utf8_encode(c, text + 1);
                text[1 + n] = 'y';
                eq_u64(text_space_at_start(slice_from(text + 1, n + 1)), is_space(c) ? n : 0);
                eq_u64(text_space_at_end(slice_from(text, n + 1)), is_space(c) ? n : 0);
        }
}

TEST(trimming_stops_at_bytes_that_are_not_utf8)
{
        eq_slice(text_trim(S(" \t\xc2\xa0"
                             "a b\xe3\x80\x80\r\n")),
                 S("a b"));
        eq_slice(text_trim(S(" \xa0 ")), S("\xa0"));
        eq_slice(text_trim(S("\xe2\x80")), S("\xe2\x80"));
        eq_slice(text_trim_end(S(" a\xff ")), S(" a\xff"));
        eq_slice(text_trim_start(S("\xe2\x80\x80\xe2\x80")), S("\xe2\x80"));
        eq_slice(text_trim(S(" \xc2\x85 ")), S(""));
        eq_slice(text_trim((struct slice){ 0 }), S(""));
}

TEST(typographic_characters_become_those_of_ascii)
{
        static const struct {
                uint32_t from, to;
                char alike;
        } ranges[] = { { 0x2010, 0x2015, '-' }, { 0x2212, 0x2212, '-' }, { 0x2018, 0x201b, '\'' },
                       { 0x201c, 0x201f, '"' }, { 0xa0, 0xa0, ' ' },     { 0x2002, 0x200a, ' ' },
                       { 0x202f, 0x202f, ' ' }, { 0x205f, 0x205f, ' ' }, { 0x3000, 0x3000, ' ' } };

        for (uint32_t c = 0x80; c <= 0x4000; c++) {
                char text[4], got[4], alike = 0;
                size_t n = utf8_encode(c, text), written = text_map(slice_from(text, n), got);
                for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
                        if (c >= ranges[i].from && c <= ranges[i].to)
                                alike = ranges[i].alike;
                eq_slice(slice_from(got, written), alike ? slice_from(&alike, 1) : slice_from(text, n));
        }
}

TEST(the_rest_of_a_mapped_text_stays_as_it_is)
{
        struct slice text = S("\xe2\x80\x99 \xff\xe2\x80\xe2\x80\x94\xc2");
        char got[16];

        eq_slice(slice_from(got, text_map(text, got)), S("' \xff\xe2\x80-\xc2"));
}

/* url_text_test: the parts that URLs of all kinds share. */
#include "base/url_text.h"

#include "unit.h"

TEST(url_clean_removes_blanks_around_and_line_ends_within)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice s = url_clean(&a, S(" \n\x01"
                                         "a b\t\r\nc\x1f "));
        ok(slice_eq(s, S("a bc")));
        eq_u64(url_clean(&a, S(" \t ")).n, 0);
        eq_u64(url_clean(&a, (struct slice){ 0 }).n, 0);
}

TEST(url_scheme_begins_with_a_letter_and_ends_before_the_first_colon)
{
        eq_u64(url_scheme_length(S("http://x")), 4);
        eq_u64(url_scheme_length(S("a+b-c.1:x:y")), 7);
        eq_u64(url_scheme_length(S("1a:x")), 0);
        eq_u64(url_scheme_length(S("a/b:c")), 0);
        eq_u64(url_scheme_length(S("a\0b:c")), 0);
        eq_u64(url_scheme_length(S("abc")), 0);
        eq_u64(url_scheme_length(S(":x")), 0);
        eq_u64(url_scheme_length((struct slice){ 0 }), 0);
}

TEST(url_percent_decode_leaves_what_is_no_escape)
{
        char out[16];
        size_t n = url_percent_decode(out, S("%41%zz%4%2f%"));
        ok(slice_eq(slice_from(out, n), S("A%zz%4/%")));
}

TEST(url_dots_are_counted_also_when_they_are_escaped)
{
        eq_u64(url_count_dots(S(".")), 1);
        eq_u64(url_count_dots(S("%2E")), 1);
        eq_u64(url_count_dots(S(".%2e")), 2);
        eq_u64(url_count_dots(S("...")), 0);
        eq_u64(url_count_dots(S(".a")), 0);
        eq_u64(url_count_dots(S("")), 0);
}

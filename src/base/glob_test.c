/* glob_test: a table of patterns and names, and a hostile pattern that must not take long. */
#include "base/glob.h"

#include "unit.h"

TEST(glob_matches_whole_names)
{
        static const struct {
                struct slice pattern, name;
                bool matches;
        } cases[] = {
                { S(""), S(""), true },
                { S(""), S("A"), false },
                { S("A"), S(""), false },
                { S("*"), S(""), true },
                { S("**"), S(""), true },
                { S("*"), S("ANYTHING"), true },
                { S("?"), S(""), false },
                { S("?"), S("A"), true },
                { S("?"), S("AB"), false },
                { S("PATH"), S("PATH"), true },
                { S("PATH"), S("PATHS"), false },
                { S("PATH"), S("XPATH"), false },
                { S("path"), S("PaTh"), true },
                { S("*KEY*"), S("AWS_ACCESS_KEY_ID"), true },
                { S("*KEY*"), S("KEY"), true },
                { S("*KEY"), S("MY_KEYKEY"), true },
                { S("*KEY"), S("KEY_ID"), false },
                { S("AWS_*"), S("aws_region"), true },
                { S("AWS_*"), S("AWS"), false },
                { S("LC_*"), S("LC_"), true },
                { S("a*b*c"), S("aXbXbXc"), true },
                { S("a*b*c"), S("aXbXbX"), false },
                { S("a?c"), S("abc"), true },
                { S("a??c"), S("abc"), false },
                { S("*?"), S("ab"), true },
                { S("*?"), S(""), false },
                { S("?*?"), S("a"), false },
                { S("?*?"), S("ab"), true },
                { S("[A-Z]"), S("B"), false },
                { S("[A-Z]"), S("[a-z]"), true },
                { S("a\\*"), S("a\\b"), true },
                { S("a"), S("a\0b"), false },
                { S("a?b"), S("a\0b"), true },
                { S("a\0b"), S("a\0b"), true },
                { S("*\0"), S("a"), false },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
                if (glob_match_name(cases[i].pattern, cases[i].name) != cases[i].matches)
                        fail_msg("'%.*s' and '%.*s'", SLICE(cases[i].pattern), SLICE(cases[i].name));
}

TEST(glob_question_mark_takes_one_character_not_one_byte)
{
        ok(glob_match_name(S("a?b"), S("a\xc3\xa4"
                                       "b")));
        ok(glob_match_name(S("?"), S("\xf0\x9f\x98\x80")));
        ok(!glob_match_name(S("??"), S("\xf0\x9f\x98\x80")));
        ok(glob_match_name(S("*?"), S("x\xe2\x82\xac")));
        ok(!glob_match_name(S("*??"), S("\xe2\x82\xac")));
}

TEST(glob_bytes_that_are_no_utf8_count_one_each)
{
        ok(glob_match_name(S("?"), S("\xff")));
        ok(glob_match_name(S("??"), S("\xe2\x82")));
        ok(glob_match_name(S("\xff*"), S("\xff\xfe")));
}

TEST(glob_only_ascii_letters_fold)
{
        ok(!glob_match_name(S("\xc3\xa4"), S("\xc3\x84")));
        ok(!glob_match_name(S("@"), S("`")));
        ok(!glob_match_name(S("["), S("{")));
}

TEST(glob_hostile_pattern_is_cheap)
{
        static char name[20000], pattern[2000];

        memset(name, 'a', sizeof(name));
        for (size_t i = 0; i < sizeof(pattern); i += 2)
                memcpy(pattern + i, "*a", 2);
        ok(glob_match_name(slice_from(pattern, sizeof(pattern)), slice_from(name, sizeof(name))));
        pattern[sizeof(pattern) - 1] = 'b';
        ok(!glob_match_name(slice_from(pattern, sizeof(pattern)), slice_from(name, sizeof(name))));
}

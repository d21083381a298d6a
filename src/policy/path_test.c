/* path_test: the order, the parts and the joining of paths. */
#include "policy/path.h"

#include "unit.h"

TEST(a_path_is_within_itself_and_every_directory_above_it)
{
        ok(path_is_within(S("/a/b"), S("/a/b")) && path_is_within(S("/a/b"), S("/a")));
        ok(path_is_within(S("/a"), S("/")) && path_is_within(S("/"), S("/")));
        ok(!path_is_within(S("/ab"), S("/a")) && !path_is_within(S("/a"), S("/a/b")));
}

TEST(paths_below_a_directory_follow_it_directly)
{
        static const struct slice sorted[] = { S("/"),    S("/a"),  S("/a/z"), S("/a/z/b"), S("/a\x01"),
                                               S("/a b"), S("/a-"), S("/b"),   S("/\xff") };
        for (size_t i = 0; i < ARRAY_LEN(sorted); i++)
                for (size_t k = 0; k < ARRAY_LEN(sorted); k++)
                        eq_int(path_compare(sorted[i], sorted[k]), (i > k) - (i < k));
}

TEST(parent_and_name_are_the_parts_of_a_path)
{
        _arena_ struct arena a = ARENA_INIT;
        static const struct slice rows[][3] = { { S("/"), S("/"), S("") },
                                                { S("/a"), S("/"), S("a") },
                                                { S("/a/b.c"), S("/a"), S("b.c") } };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                eq_slice(path_parent(rows[i][0]), rows[i][1]);
                eq_slice(path_name(rows[i][0]), rows[i][2]);
                eq_slice(path_join(&a, rows[i][1], rows[i][2]), rows[i][0]);
        }
        eq_slice(path_name(S("a")), S("a"));
        eq_slice(path_name(S("")), S(""));
}

/* slice_test: comparing, trimming, splitting and looking up slices, and reading numbers. */
#include "base/slice.h"

#include "unit.h"

#include <errno.h>

TEST(comparison_without_case_knows_ascii_letters_only)
{
        ok(slice_eq_nocase(S("Sec-WebSocket-Key"), S("sec-websocket-KEY")));
        ok(slice_eq_nocase(S(""), (struct slice){ 0 }));
        ok(!slice_eq_nocase(S("a"), S("ab")));
        ok(!slice_eq_nocase(S("@"), S("`"))); /* 0x20 apart, but no letters */
        ok(!slice_eq_nocase(S("\xc4"), S("\xe4")));
}

TEST(trim_takes_blanks_from_both_ends_only)
{
        eq_slice(slice_trim(S(" \t\r\na b\n ")), S("a b"));
        eq_slice(slice_trim(S("a")), S("a"));
        eq_slice(slice_trim(S(" \t ")), S(""));
        eq_slice(slice_trim(S("\v\0")), S("\v\0"));
        eq_slice(slice_trim((struct slice){ 0 }), S(""));
}

TEST(split_walks_all_parts_and_ends_with_a_null_rest)
{
        struct slice rest = S("a,,b,");

        eq_slice(slice_split(&rest, ','), S("a"));
        eq_slice(slice_split(&rest, ','), S(""));
        eq_slice(slice_split(&rest, ','), S("b"));
        ok(rest.p != NULL); /* there was a separator: an empty part follows */
        eq_slice(slice_split(&rest, ','), S(""));
        ok(rest.p == NULL);
        eq_slice(slice_split(&rest, ','), S(""));
}

TEST(numbers_are_digits_only_and_bounded)
{
        static const struct {
                struct slice text;
                uint64_t max;
                int result;
                uint64_t value;
        } cases[] = {
                { { "0", 1 }, 10, 0, 0 },
                { { "007", 3 }, 10, 0, 7 },
                { { "10", 2 }, 10, 0, 10 },
                { { "11", 2 }, 10, -ERANGE, 0 },
                { { "18446744073709551615", 20 }, UINT64_MAX, 0, UINT64_MAX },
                { { "18446744073709551616", 20 }, UINT64_MAX, -ERANGE, 0 },
                { { "99999999999999999999999999", 26 }, UINT64_MAX, -ERANGE, 0 },
                { { "99999999999999999999999999x", 27 }, UINT64_MAX, -EINVAL, 0 },
                { { "", 0 }, 10, -EINVAL, 0 },
                { { NULL, 0 }, 10, -EINVAL, 0 },
                { { "-1", 2 }, 10, -EINVAL, 0 },
                { { "+1", 2 }, 10, -EINVAL, 0 },
                { { " 1", 2 }, 10, -EINVAL, 0 },
                { { "1\0", 2 }, 10, -EINVAL, 0 },
                { { "0x1", 3 }, 10, -EINVAL, 0 },
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                uint64_t value = 42;
                eq_int(slice_to_u64(cases[i].text, cases[i].max, &value), cases[i].result);
                eq_u64(value, cases[i].result == 0 ? cases[i].value : 42);
        }
}

TEST(find_gives_the_index_of_the_equal_name)
{
        static const char *const names[] = { "one", "two", "" };
        eq_u64(slice_find(S("one"), names, ARRAY_LEN(names)), 0);
        eq_u64(slice_find(S("two"), names, ARRAY_LEN(names)), 1);
        eq_u64(slice_find(S(""), names, ARRAY_LEN(names)), 2);
        eq_u64(slice_find(S("tw"), names, ARRAY_LEN(names)), 3);
        eq_u64(slice_find(S("One"), names, ARRAY_LEN(names)), 3);
        eq_u64(slice_find(S("one"), names, 0), 0);
}

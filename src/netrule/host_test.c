/* host_test: hosts come out in one spelling, or not at all. */
#include "netrule/host.h"
#include "unit.h"

#include <errno.h>

TEST(hosts_are_normalized)
{
        static const char *const rows[][2] = {
                { "a", "a" },
                { "A.Example.COM.", "a.example.com" },
                { "a...", "a" },
                { "_x-1.b", "_x-1.b" },
                { "127.0.0.1.", "127.0.0.1" },
                { "2130706433", "2130706433" },
                { "[::1]", "::1" },
                { "::1", "::1" },
                { "[0:0::1]", "::1" },
                { "[::FFFF:7f00:1]", "::ffff:127.0.0.1" },
                { "[2001:DB8::A]", "2001:db8::a" },
                { "LOCALHOST.", "localhost" },
        };
        static const char *const bad[] = { "",
                                           ".",
                                           "..",
                                           ".a",
                                           "a..b",
                                           "a b",
                                           " a",
                                           "a\n",
                                           "a\x7f",
                                           "[",
                                           "[]",
                                           "[a]",
                                           "[::1",
                                           "::1]",
                                           "[127.0.0.1]",
                                           "[::1]:80",
                                           "a:80",
                                           "fe80::1%lo",
                                           "[fe80::1%25lo]",
                                           "*",
                                           "*.a",
                                           "a?",
                                           "a/b",
                                           "a@b",
                                           "a%41",
                                           "b\xc3\xbc",
                                           "a,b",
                                           "[[::1]]",
                                           ":" };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct slice host;
                eq_int(net_host_normalize(&a, slice_from_str(rows[i][0]), &host), 0);
                eq_slice(host, slice_from_str(rows[i][1]));
                ok(net_host_is_normal(host));
                ok(net_host_is_normal(slice_from_str(rows[i][0])) == (strcmp(rows[i][0], rows[i][1]) == 0));
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct slice host;
                eq_int(net_host_normalize(&a, slice_from_str(bad[i]), &host), -EINVAL);
        }
}

TEST(a_host_has_no_nul_and_is_not_too_long)
{
        _arena_ struct arena a = ARENA_INIT;
        char text[NET_HOST_MAX + 2];
        struct slice host;
        memset(text, 'a', sizeof(text));
        eq_int(net_host_normalize(&a, slice_from(text, NET_HOST_MAX + 1), &host), -EINVAL);
        eq_int(net_host_normalize(&a, slice_from(text, NET_HOST_MAX), &host), 0);
        text[NET_HOST_MAX] = '.';
        eq_int(net_host_normalize(&a, slice_from(text, NET_HOST_MAX + 1), &host), 0);
        eq_int(net_host_normalize(&a, S("a\0b"), &host), -EINVAL);
}

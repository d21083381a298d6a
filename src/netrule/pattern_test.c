/* pattern_test: what the reference server accepts as a pattern, what it says about others, and which hosts a pattern means: recorded. */
#include "base/limits.h"
#include "netrule/pattern.h"
#include "unit.h"

#include <errno.h>
#include <stdio.h>

static void becomes(const char *pattern, enum net_action action, const char *expected)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice normal;
        int r = net_policy_check_pattern(&a, slice_from_str(pattern), action, &normal, &err);
        if (r < 0) {
                eq_int(r, -EINVAL);
                eq_str(err.text, expected);
                return;
        }
        eq_slice(normal, slice_from_str(expected));
        ok(net_pattern_is_normal(normal));
}

#define SYNTAX "unsupported domain pattern syntax: "
#define TWICE "unsupported repeated wildcard: "
#define BRACKETS "brackets are only supported for IPv6 literals or [*]: "
#define EMPTY "domain pattern is empty"

TEST(patterns_are_accepted_and_refused_as_by_the_reference)
{
        static const char *const rows[][2] = {
                { "a", "a" },
                { "A.B.", "a.b" },
                { "*", "*" },
                { " * ", "*" },
                { "*.com", "*.com" },
                { "**.com.", "**.com" },
                { "*.*", "*.*" },
                { "a.*.b", "a.*.b" },
                { "a*b", "a*b" },
                { "a?b", "a?b" },
                { "[*]", "*" },
                { "[*]:80", "*" },
                { "*:*", "*" },
                { "*.[*]", "*.*" },
                { "x:80", "x" },
                { "*.x:80", "*.x" },
                { "x.:80", "x" },
                { "x:", "x" },
                { "x:y:z", "x:y:z" },
                { "[::1]", "::1" },
                { "::1", "::1" },
                { "0:0::1", "::1" },
                { "[::1]:80", "::1" },
                { "[::1].", "::1" },
                { "*.[::1]", "*.::1" },
                { "[::FFFF:127.0.0.1]", "::ffff:127.0.0.1" },
                { "[fe80::1%eth0]", "fe80::1%eth0" },
                { "[::1%]", "::1%" },
                { "127.0.0.1.", "127.0.0.1" },
                { "a@b", "a@b" },
                { "%41", "%41" },
                { "-a", "-a" },
                { ".a", ".a" },
                { "a..b", "a..b" },
                { "*.a..", "*.a" },
                { "256.1.1.1", "256.1.1.1" },
                { "", EMPTY },
                { " ", EMPTY },
                { ".", EMPTY },
                { "*.", EMPTY },
                { "**.", EMPTY },
                { "*. ", EMPTY },
                { ":80", EMPTY },
                { ":", EMPTY },
                { "*..", EMPTY },
                { "**", TWICE "**" },
                { "** ", TWICE "** " },
                { "***.com", TWICE "***.com" },
                { "a**b", TWICE "a**b" },
                { "**.**", TWICE "**.**" },
                { "**[", TWICE "**[" },
                { "[", BRACKETS "[" },
                { "[]", BRACKETS "[]" },
                { "a]", BRACKETS "a]" },
                { "[::1", BRACKETS "[::1" },
                { "[1.2.3.4]", BRACKETS "[1.2.3.4]" },
                { "[a]", BRACKETS "[a]" },
                { "[*].com", BRACKETS "[*].com" },
                { "[*]x", BRACKETS "[*]x" },
                { "[::1]x", BRACKETS "[::1]x" },
                { "[::1]]", BRACKETS "[::1]]" },
                { "*.[*].b", BRACKETS "*.[*].b" },
                { "[%eth0]", BRACKETS "[%eth0]" },
                { "a[bc]d", BRACKETS "a[bc]d" },
                { "**.[a]", BRACKETS "**.[a]" },
                { "http://x", SYNTAX "http://x" },
                { "x/y", SYNTAX "x/y" },
                { "a b", SYNTAX "a b" },
                { "a\tb", SYNTAX "a\tb" },
                { "a\nb", SYNTAX "a\nb" },
                { "a{b,c}", SYNTAX "a{b,c}" },
                { "a\\b", SYNTAX "a\\b" },
                { "10.0.0.0/8", SYNTAX "10.0.0.0/8" },
                { "[/", SYNTAX "[/" },
                { "**/", SYNTAX "**/" },
                { "a b[", SYNTAX "a b[" },
                { "[fe80::1%e/x]", SYNTAX "[fe80::1%e/x]" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                becomes(rows[i][0], NET_ALLOW, rows[i][1]);
                becomes(rows[i][0], NET_ASK, rows[i][1]);
        }
}

TEST(all_hosts_cannot_be_denied)
{
        static const char *const stars[] = { "*", "[*]", "*:*", "[*].com", "[*]x", "[*]:80" };
        for (size_t i = 0; i < ARRAY_LEN(stars); i++) {
                char text[200];
                (void)snprintf(text, sizeof(text),
                               "invalid value for network.denied_domains: %s (allowed exact hosts or scoped "
                               "wildcards like "
                               "*.example.com or **.example.com)",
                               stars[i]);
                becomes(stars[i], NET_DENY, text);
        }
        becomes(" * ", NET_DENY,
                "invalid value for network.denied_domains: * (allowed exact hosts or scoped wildcards like "
                "*.example.com or "
                "**.example.com)");
        becomes("*.*", NET_DENY, "*.*");
        becomes("*.[*]", NET_DENY, "*.*");
        becomes("**", NET_DENY, TWICE "**");
        becomes("a]", NET_DENY, BRACKETS "a]");
}

TEST(a_pattern_that_is_too_long_is_refused_with_a_text_that_is_cut)
{
        _arena_ struct arena a = ARENA_INIT;
        static char text[10 * LIMIT_NET_PATTERN_BYTES];
        struct err err = ERR_INIT;
        struct slice normal;
        memset(text, 'a', sizeof(text));
        eq_int(net_policy_check_pattern(&a, slice_from(text, LIMIT_NET_PATTERN_BYTES), NET_ALLOW, &normal,
                                        &err),
               0);
        eq_int(net_policy_check_pattern(&a, slice_from(text, sizeof(text)), NET_ALLOW, &normal, &err),
               -EINVAL);
        eq_int(strlen(err.text), strlen(SYNTAX) + LIMIT_NET_PATTERN_BYTES);
}

TEST(rules_refuse_what_would_have_no_effect)
{
        static const char *const good[] = { "a",       "*",     "*.a", "**.a-b_c.", "a*b?",
                                            "1.2.3.4", "[::1]", "::1", "A.test" };
        static const char *const bad[] = { "a:80",
                                           "*:80",
                                           "[::1]:80",
                                           "[*]:80",
                                           "1.2.3.4:80",
                                           "fe80::1%eth0",
                                           ("b\xc3\xbc"
                                            "cher.de"),
                                           "a@b",
                                           "x:y:z",
                                           "*.[::1]",
                                           "*.1.2.3.4",
                                           "",
                                           "a b",
                                           "!a" };
        _arena_ struct arena a = ARENA_INIT;
        struct err err;
        struct slice normal;
        for (size_t i = 0; i < ARRAY_LEN(good); i++)
                eq_int(net_policy_check_rule_host(&a, slice_from_str(good[i]), &normal, &err), 0);
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                eq_int(net_policy_check_rule_host(&a, slice_from_str(bad[i]), &normal, &err), -EINVAL);
}

TEST(a_path_of_a_unix_socket_is_absolute)
{
        struct err err = ERR_INIT;
        eq_int(net_policy_check_unix_socket(S("/run/x.sock"), 0, &err), 0);
        eq_int(net_policy_check_unix_socket(S("/a/../b"), 0, &err), 0);
        static const struct {
                struct slice path;
                const char *shown;
        } rows[] = {
                { S("x.sock"), "x.sock" },
                { S(""), "" },
                { S("~/b"), "~/b" },
                { S("/a\0"), "/a\\0" },
                { S("a\"b\n\\\t\r"), "a\\\"b\\n\\\\\\t\\r" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char text[200];
                (void)snprintf(text, sizeof(text),
                               "invalid network.allow_unix_sockets[%zu]: expected a NUL-free absolute path "
                               "for Linux, got \"%s\"",
                               i, rows[i].shown);
                eq_int(net_policy_check_unix_socket(rows[i].path, i, &err), -EINVAL);
                eq_str(err.text, text);
        }
}

TEST(patterns_match_as_in_the_reference)
{
        static const struct {
                const char *pattern, *hosts, *others;
        } rows[] = {
                { "a*b", "ab axb a.b ax.yb aab", "a b abc xab" },
                { "*a", "a xa x.a", "ab" },
                { "a.*", "a.x a.x.y", "a ax" },
                { "a?b", "axb a.b", "ab axxb" },
                { "*.*", "a.b a.b.c", "a" },
                { "*.com", "x.com y.x.com", "com xcom .com com.x" },
                { "**.com", "com x.com y.x.com", "xcom com.x" },
                { "*", "x y.z ::1", "" },
                { "*.a.*", "x.a.y z.x.a.y.q", "a.y x.a" },
                { "**.a.*", "x.a.y a.y", "x.a a" },
                { "127.*", "127.0.0.1", "128.0.0.1" },
                { "x", "x", "y xx x.x" },
                { "*a*a*a*a*b", "aaaab xaxaxaxab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct slice rest = slice_from_str(rows[i].hosts);
                while (rest.p)
                        ok(net_pattern_matches(slice_from_str(rows[i].pattern), slice_split(&rest, ' ')));
                rest = slice_from_str(rows[i].others);
                while (rest.p)
                        ok(!net_pattern_matches(slice_from_str(rows[i].pattern), slice_split(&rest, ' ')));
        }
        ok(net_pattern_is_exact(S("a.b")));
        ok(!net_pattern_is_exact(S("*.b")));
        ok(!net_pattern_is_exact(S("a?b")));
}

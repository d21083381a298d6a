/* pattern_test: the syntax is that of the other implementations of the protocol. Where ours denies more, a test says so. */
#include "policy/pattern.h"

#include "base/buf.h"
#include "unit.h"

#include <errno.h>

struct question {
        const char *pattern, *path;
        bool matches;
};

static const struct pattern *compiled(struct arena *a, const char *text)
{
        struct err err = ERR_INIT;
        const struct pattern *p = NULL;
        if (pattern_compile(a, slice_from_str(text), &p, &err) < 0)
                fail_msg("%s", err.text);
        return p;
}

static void check(const struct question *cases, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                _arena_ struct arena a = ARENA_INIT;
                const struct pattern *p = compiled(&a, cases[i].pattern);
                if (pattern_matches(p, slice_from_str(cases[i].path)) != cases[i].matches)
                        fail_msg("'%s' %s '%s'", cases[i].pattern,
                                 cases[i].matches ? "does not match" : "matches", cases[i].path);
        }
}

TEST(pattern_star_and_question_mark_stay_inside_a_component)
{
        static const struct question cases[] = {
                { "/w/*.key", "/w/k.key", true },
                { "/w/*.key", "/w/.key", true },
                { "/w/*.key", "/w/s/k.key", false },
                { "/w/*.key", "/w/K.KEY", false },
                { "/w/*.key", "/v/k.key", false },
                { "/w/*", "/w/.hidden", true },
                { "/w/*", "/w", false },
                { "/w/*", "/w/a\nb", true },
                { "/w/*/x", "/w/x", false },
                { "/w/*/x", "/w/a/x", true },
                { "/w/?.key", "/w/k.key", true },
                { "/w/?.key", "/w/kk.key", false },
                { "/w/a?b", "/w/a/b", false },
                { "/w/a*b*c", "/w/axbxbxc", true },
                { "/w/a*b*c", "/w/axbxbxcd", false },
                { "/w/s*/c.env", "/w/s/t/c.env", false },
                { "/w/?", "/w/\xc3\xa9", true },
                { "/w/??", "/w/\xc3\xa9", false },
                { "/w/?", "/w/\xff", true },
                { "/w/\xc3\xa9*", "/w/\xc3\xa9t\xc3\xa9", true },
                { "/*/x", "/a/x", true },
                { "/*", "/a", true },
        };
        check(cases, ARRAY_LEN(cases));
}

TEST(pattern_two_stars_as_a_component_are_any_number_of_directories)
{
        static const struct question cases[] = {
                { "/w/**/*.env", "/w/.env", true },
                { "/w/**/*.env", "/w/a.env", true },
                { "/w/**/*.env", "/w/s/t/c.env", true },
                { "/w/**/*.env", "/w/s/t/c.envx", false },
                { "/w/**/*.env", "/wx/a.env", false },
                { "/w/**/s/**", "/w/s", false },
                { "/w/**/s/**", "/w/a/s/x/y", true },
                { "/w/**/s/**", "/w/as/x", false },
                { "/w/**/private", "/w/private", true },
                { "/w/**/private", "/w/a/b/private", true },
                { "/w/**/private", "/w/xprivate", false },
                { "/w/**", "/w", false },
                { "/w/**", "/w/a/b", true },
                { "/w/**/**", "/w/a", true },
                { "/w/**/**/c", "/w/c", true },
                { "/w/a/**/b", "/w/a/b", true },
                { "/w/a/**/b", "/w/a/x/y/b", true },
                { "/w/a/**/b", "/w/axb", false },
                { "/w/**/a/**/b", "/w/x/a/y/a/b", true },
                { "/**/x", "/x", true },
                { "/**", "/a/b", true },
                /* Two stars inside of a component mean the same as one. */
                { "/w/**.env", "/w/a.env", true },
                { "/w/**.env", "/w/s/a.env", false },
                { "/w/s**", "/w/s/t", false },
                { "/w/***/a", "/w/a", false },
                { "/w/***/a", "/w/s/a", true },
                { "/w/{*,x}*/a", "/w/s/t/a", false },
        };
        check(cases, ARRAY_LEN(cases));
}

TEST(pattern_classes_hold_characters_and_ranges)
{
        static const struct question cases[] = {
                { "/w/[ab].key", "/w/a.key", true },
                { "/w/[ab].key", "/w/c.key", false },
                { "/w/[!a].key", "/w/b.key", true },
                { "/w/[!a].key", "/w/a.key", false },
                { "/w/[^a].key", "/w/b.key", true },
                { "/w/[b-d]", "/w/c", true },
                { "/w/[b-d]", "/w/e", false },
                { "/w/[]a]", "/w/]", true },
                { "/w/[!]]", "/w/]", false },
                { "/w/[a-]", "/w/-", true },
                { "/w/[-a]", "/w/-", true },
                { "/w/[\\]]", "/w/\\]", true },
                { "/w/[{,}]", "/w/,", true },
                { "/w/[*?]", "/w/*", true },
                { "/w/[*?]", "/w/a", false },
                { "/w/[x.key", "/w/[x.key", true },
                { "/w/[x.key", "/w/x.key", false },
                { "/w/[]", "/w/[]", true },
                { "/w/{[x,y}", "/w/[x", true },
                { "/w/[\xc3\xa9-\xc3\xbf]", "/w/\xc3\xaa", true },
                { "/w/[!a]", "/w/\xc3\xa9", true },
                { "/w/[[:alpha:]]", "/w/:]", true },
                /* As in other implementations, a class may hold the slash. */
                { "/w/a[!x]b", "/w/a/b", true },
                { "/w/a[/]b", "/w/a/b", true },
        };
        check(cases, ARRAY_LEN(cases));
}

TEST(pattern_braces_hold_alternatives)
{
        static const struct question cases[] = {
                { "/w/*.{pem,key}", "/w/a.pem", true },
                { "/w/*.{pem,key}", "/w/a.key", true },
                { "/w/*.{pem,key}", "/w/a.txt", false },
                { "/w/{a,{b,c}}.x", "/w/c.x", true },
                { "/w/{a,{b,c}}.x", "/w/d.x", false },
                { "/w/*{a,s/b}.env", "/w/xs/b.env", true },
                { "/w/{**/c,d}.env", "/w/s/t/c.env", true },
                { "/w/{**/c,d}.env", "/w/s/d.env", false },
                { "/w/{a,b}{c,d}", "/w/bd", true },
                { "/w/{a}", "/w/a", true },
                { "/w/{}x", "/w/x", true },
                { "/w/a,b", "/w/a,b", true },
                { "/w/{a\\,b,c}", "/w/a,b", true },
                { "/w/{a/b,a/c}", "/w/a/c", true },
                { "/w/{b/../a,c}", "/w/a", true },
                /* An empty alternative counts; other implementations leave it out. */
                { "/w/*{,x}.env", "/w/.env", true },
        };
        check(cases, ARRAY_LEN(cases));
}

TEST(pattern_text_is_cleaned_and_a_backslash_quotes)
{
        static const struct question cases[] = {
                { "/w//./s/", "/w/s", true },        { "/w/x/../a.env", "/w/a.env", true },
                { "/../w/?", "/w/a", true },         { "/w/\\*.env", "/w/*.env", true },
                { "/w/\\*.env", "/w/a.env", false }, { "/w/\\{a", "/w/{a", true },
                { "/w/\\a", "/w/a", true },          { "/w\\/?", "/w/a", true },
                { "/w/a.env", "/w/a.env", true },    { "/w/?*/", "/w/a", true },
        };
        check(cases, ARRAY_LEN(cases));
}

TEST(pattern_that_is_malformed_is_refused)
{
        static const char *const texts[] = {
                "",      "a",      "*/a",      "/",         "/..",      "/./",   "/w/{a",
                "/w/a}", "/w/*\\", "/w/[z-a]", "/w/*/../a", "/w/**/..", "/{,a}", "/w/{a,{b}",
        };
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct err err = ERR_INIT;
                const struct pattern *p;
                eq_int(pattern_compile(&a, slice_from_str(texts[i]), &p, &err), -EINVAL);
                ok(strstr(err.text, "invalid deny-read glob pattern `"));
        }
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const struct pattern *p;
        eq_int(pattern_compile(&a, S("/w/a\0b"), &p, &err), -EINVAL);
}

static int compile_repeated(const char *head, const char *part, size_t times, const char *tail)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf b = BUF_INIT(100000);
        struct err err = ERR_INIT;
        const struct pattern *p;

        ok(buf_append(&b, slice_from_str(head)) == 0);
        for (size_t i = 0; i < times; i++)
                ok(buf_append(&b, slice_from_str(part)) == 0);
        ok(buf_append(&b, slice_from_str(tail)) == 0);
        return pattern_compile(&a, buf_slice(&b), &p, &err);
}

TEST(pattern_bounds_hold)
{
        eq_int(compile_repeated("/w/", "{a,b}", 6, ""), 0); /* 64 alternatives */
        eq_int(compile_repeated("/w/", "{a,b}", 7, ""), -EINVAL);
        eq_int(compile_repeated("/w/{", "a,", 63, "a}"), 0);
        eq_int(compile_repeated("/w/{", "a,", 64, "a}"), -EINVAL);
        eq_int(compile_repeated("/w/", "?", PATTERN_BYTES_MAX - 3, ""), 0);
        eq_int(compile_repeated("/w/", "?", PATTERN_BYTES_MAX - 2, ""), -EINVAL);
        eq_int(compile_repeated("/w/{a,b,c}", "?", 3000, ""), -EINVAL);
        eq_int(compile_repeated("/w/", "{", 2000, "}"), -EINVAL);
        eq_int(compile_repeated("/w/", "{a,", 2000, "a"), -EINVAL);
}

/* Uses every state bit in every word: patterns of growing length, each with a path that matches and one that does not. */
TEST(pattern_of_any_length_matches)
{
        for (size_t n = 1; n < 300; n++) {
                _arena_ struct arena a = ARENA_INIT;
                char *text = arena_printf(&a, "/w/**/%0*d/*x*y", (int)n, 0);
                const struct pattern *p = compiled(&a, text);
                ok(pattern_matches(p, slice_from_str(arena_printf(&a, "/w/a/b/%0*d/1x2y", (int)n, 0))));
                ok(pattern_matches(p, slice_from_str(arena_printf(&a, "/w/%0*d/xy", (int)n, 0))));
                ok(!pattern_matches(p, slice_from_str(arena_printf(&a, "/w/%0*d/xy", (int)n + 1, 0))));
                ok(!pattern_matches(p, slice_from_str(arena_printf(&a, "/w/%0*d/yx", (int)n, 0))));
        }
}

/* With backtracking this pattern would take exponential time. */
TEST(pattern_with_many_stars_is_answered_at_once)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf b = BUF_INIT(8192), path = BUF_INIT(8192);
        const struct pattern *p;
        struct err err = ERR_INIT;

        ok(buf_append(&b, S("/w/")) == 0 && buf_append(&path, S("/w/")) == 0);
        for (size_t i = 0; i < 1000; i++)
                (void)!buf_append(&b, S("**/*a"));
        for (size_t i = 0; i < 2000; i++)
                ok(buf_append(&path, S("a/")) == 0);
        ok(buf_append(&path, S("b")) == 0);
        buf_truncate(&b, PATTERN_BYTES_MAX);
        eq_int(pattern_compile(&a, buf_slice(&b), &p, &err), 0);
        ok(!pattern_matches(p, buf_slice(&path)));
}

TEST(pattern_covers_what_lies_below_a_match)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct pattern *p = compiled(&a, "/w/**/private");

        ok(pattern_covers(p, S("/w/a/private")));
        ok(pattern_covers(p, S("/w/a/private/b/c")));
        ok(!pattern_covers(p, S("/w/a/privates/b")));
        ok(!pattern_covers(p, S("/w")));
        ok(!pattern_covers(p, S("/private")));
        ok(!pattern_covers(p, S("/")));
}

TEST(pattern_knows_where_nothing_can_match)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct pattern *p = compiled(&a, "/w/x/*/b/*.env");

        ok(pattern_may_match_below(p, S("/")));
        ok(pattern_may_match_below(p, S("/w")));
        ok(pattern_may_match_below(p, S("/w/x")));
        ok(pattern_may_match_below(p, S("/w/x/1")));
        ok(pattern_may_match_below(p, S("/w/x/1/b")));
        ok(!pattern_may_match_below(p, S("/w/x/1/c")));
        ok(!pattern_may_match_below(p, S("/w/x/1/b/2")));
        ok(!pattern_may_match_below(p, S("/w/y")));
        ok(!pattern_may_match_below(p, S("/w/xy")));
        ok(!pattern_may_match_below(p, S("/v")));
        ok(pattern_may_match_below(compiled(&a, "/**/x"), S("/any/where")));
}

TEST(pattern_prefix_is_the_directory_above_all_that_matches)
{
        static const char *const cases[][2] = {
                { "/w/**/*.env", "/w" },
                { "/w/a.env", "/w" },
                { "/*/a", "/" },
                { "/a", "/" },
                { "/w/a*/b", "/w" },
                { "/w/{a,b}/c*", "/w" },
                { "/w/{a/b,a/c}/*", "/w/a" },
                { "/w/\\*/x?", "/w/*" },
                { "/w//./v/../u/*", "/w/u" },
                { "/w/{a,a}", "/w" },
                { "/{w/a,w/a/b}", "/w" },
                { "/w/\xc3\xa9/[", "/w/\xc3\xa9" },
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(pattern_prefix(compiled(&a, cases[i][0])).p, cases[i][1]);
        }
}

TEST(pattern_states_walk_a_tree_as_the_whole_path_does)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct pattern *p = compiled(&a, "/w/**/{b/*.x,c}");
        uint64_t *at = arena_zalloc(&a, pattern_words(p) * sizeof(*at));

        pattern_enter(p, at);
        ok(pattern_step(p, at, S("c"), NULL));
        ok(!pattern_step(p, at, S("a.x"), NULL));
        ok(!pattern_step(p, at, S("b"), at));
        ok(pattern_step(p, at, S("a.x"), NULL));
        ok(!pattern_step(p, at, S("a.y"), at));
        ok(!pattern_step(p, at, S("a.x"), NULL));
        ok(pattern_step(p, at, S("c"), NULL));
}

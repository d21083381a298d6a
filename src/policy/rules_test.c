/* rules_test: entries become absolute paths in a place; the deepest rule counts, and the order of entries does not. */
#include "policy/rules.h"

#include "policy/pattern.h"
#include "policy/rule_tree.h"
#include "unit.h"

#include <errno.h>

#define AT(path, what)                                                                    \
        {                                                                                 \
                .kind = TARGET_PATH, .text = { path, sizeof(path) - 1 }, .access = (what) \
        }
#define GLOB(pattern, what)                                                                     \
        {                                                                                       \
                .kind = TARGET_GLOB, .text = { pattern, sizeof(pattern) - 1 }, .access = (what) \
        }
#define SPECIAL(name, what)                                                         \
        {                                                                           \
                .kind = TARGET_SPECIAL, .special = SPECIAL_##name, .access = (what) \
        }
#define BELOW(name, sub, what)                                                                          \
        {                                                                                               \
                .kind = TARGET_SPECIAL, .special = SPECIAL_##name, .subpath = { sub, sizeof(sub) - 1 }, \
                .access = (what)                                                                        \
        }
#define R ACCESS_READ
#define W ACCESS_WRITE
#define D ACCESS_DENY

static const struct slice roots[] = { S("/w"), S("/v/[x]") };

static const struct place here = {
        .cwd = S("/w/{c}"), .roots = roots, .root_count = ARRAY_LEN(roots), .tmpdir = S("/t//x/")
};

static struct profile profile_of(struct profile_entry *entries, size_t count)
{
        return (struct profile){ .kind = PROFILE_MANAGED, .entries = entries, .count = count };
}

/* Returns the rules as a text such as "r/ w/w -/x g/a/x.env", or the text of the error. */
static const char *show(const struct place *place, struct profile_entry *entries, size_t count)
{
        static char text[8192];
        _arena_ struct arena a = ARENA_INIT;
        struct profile p = profile_of(entries, count);
        struct err err = ERR_INIT;
        struct rules r;
        size_t n = 0;

        text[0] = '\0';
        int code = rules_resolve(&a, &p, place, &r, &err);
        eq_int(code, err.code);
        if (code < 0 || !r.limits_files) {
                (void)snprintf(text, sizeof(text), "%s", code < 0 ? err.text : "unlimited");
                return text;
        }
        for (size_t i = 0; i < r.count; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%c%.*s", n ? " " : "",
                                      "-rw"[r.list[i].access], SLICE(r.list[i].path));
        for (size_t i = 0; i < r.glob_count; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%sg%.*s", n ? " " : "", SLICE(r.globs[i]));
        return text;
}
#define LIST(...) ((struct profile_entry[]){ __VA_ARGS__ })
#define SHOW(place, ...) \
        show((place), LIST(__VA_ARGS__), sizeof(LIST(__VA_ARGS__)) / sizeof(struct profile_entry))

TEST(special_names_become_paths_of_the_place)
{
        eq_str(SHOW(&here, SPECIAL(ROOT, R)), "r/");
        eq_str(SHOW(&here, SPECIAL(PROJECT_ROOTS, W)), "w/v/[x] w/w");
        eq_str(SHOW(&here, BELOW(PROJECT_ROOTS, "a/./b/", W)), "w/v/[x]/a/b w/w/a/b");
        eq_str(SHOW(&here, SPECIAL(TMPDIR, W), SPECIAL(SLASH_TMP, R)), "w/t/x r/tmp");
        eq_str(SHOW(&here, BELOW(ROOT, "a", W), BELOW(SLASH_TMP, "b", W), BELOW(TMPDIR, "c", W)),
               "w/a w/t/x/c w/tmp/b");
        eq_str(SHOW(&here, SPECIAL(MINIMAL, R), SPECIAL(UNKNOWN, W)), "");
}

TEST(what_has_no_place_grants_nothing)
{
        const struct place bare = { .cwd = S("/w") };
        const struct place relative = { .cwd = S("/w"), .tmpdir = S("t") };
        const struct place empty = { .cwd = S("/w"), .tmpdir = S("") };

        eq_str(SHOW(&bare, SPECIAL(PROJECT_ROOTS, W), SPECIAL(TMPDIR, W)), "");
        eq_str(SHOW(&bare, GLOB("codex-project-roots://*.env", D)), "");
        eq_str(SHOW(&relative, SPECIAL(TMPDIR, W)), "");
        eq_str(SHOW(&empty, SPECIAL(TMPDIR, W)), "");
}

TEST(a_subpath_that_leaves_its_root_grants_nothing)
{
        const struct place one = { .cwd = S("/w"), .roots = roots, .root_count = 1 };

        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "../w2", W)), "");
        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "a/../../w/b", W)), "");
        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "../w2", R)), "");
        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "/etc", W)), "");
        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "a/../b", W)), "w/w/b");
        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "a/..", W)), "w/w");
        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "", W)), "w/w");
        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "../w2", D)), "-/w2");
        eq_str(SHOW(&one, BELOW(PROJECT_ROOTS, "/etc", D)), "-/etc");
}

TEST(on_one_path_deny_beats_write_beats_read)
{
        eq_str(SHOW(&here, AT("/a", R), AT("/a", W)), "w/a");
        eq_str(SHOW(&here, AT("/a", W), AT("/a", R)), "w/a");
        eq_str(SHOW(&here, AT("/a", W), AT("/a", D), AT("/a", R)), "-/a");
        eq_str(SHOW(&here, SPECIAL(ROOT, W), AT("/", D)), "-/");
        eq_str(SHOW(&here, SPECIAL(SLASH_TMP, R), AT("/tmp", W)), "w/tmp");
}

TEST(a_directory_stands_right_before_what_is_below_it)
{
        eq_str(SHOW(&here, AT("/a-b", R), AT("/a/z", R), AT("/a", R), AT("/a.c/d", R), AT("/", R)),
               "r/ r/a r/a/z r/a-b r/a.c/d");
        eq_str(SHOW(&here, AT("/\xff", R), AT("/~", R), AT("/A", R)), "r/A r/~ r/\xff");
}

TEST(patterns_become_absolute_and_what_they_are_relative_to_is_quoted)
{
        eq_str(SHOW(&here, GLOB("**/*.env", D)), "g/w/\\{c\\}/**/*.env");
        eq_str(SHOW(&here, GLOB("codex-project-roots://*.k", D)), "g/v/\\[x\\]/*.k g/w/*.k");
        eq_str(SHOW(&here, GLOB("/a//./b/*/", D), GLOB("/a/b/*", D)), "g/a/b/*");
        eq_str(SHOW(&here, GLOB("/a/[x/./y]", D)), "g/a/[x/./y]");
        eq_str(SHOW(&here, GLOB("../*.k", D)), "g/w/\\{c\\}/../*.k");
        eq_str(SHOW(&here, GLOB("//", D), GLOB("/.", D)), "g/");
        eq_str(SHOW(&here, GLOB("/**/*.x", R), GLOB("*.x", W)), "");
}

TEST(a_relative_pattern_means_what_lies_in_its_directory_whatever_that_is_called)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct place odd = { .cwd = S("/w/a]*{b,[c]}\\?,d") };
        struct profile_entry entry = GLOB("../*/*.env", D);
        struct profile p = profile_of(&entry, 1);
        const struct pattern *pattern;
        struct rules r;
        struct err err = ERR_INIT;

        eq_int(rules_resolve(&a, &p, &odd, &r, &err), 0);
        eq_int(pattern_compile(&a, r.globs[0], &pattern, &err), 0);
        eq_slice(pattern_prefix(pattern), S("/w"));

        entry.text = S("*.env");
        eq_int(rules_resolve(&a, &p, &odd, &r, &err), 0);
        eq_int(pattern_compile(&a, r.globs[0], &pattern, &err), 0);
        eq_slice(pattern_prefix(pattern), odd.cwd);
        ok(pattern_matches(pattern, S("/w/a]*{b,[c]}\\?,d/x.env")));
        ok(!pattern_matches(pattern, S("/w/a]*{b,[c]}\\?,d/x/y.env")));
}

TEST(a_pattern_that_says_nothing_is_refused)
{
#define MALFORMED(pattern, why) "invalid deny-read glob pattern `" pattern "`: " why
        eq_str(SHOW(&here, GLOB("", D)), MALFORMED("", "it is empty"));
        eq_str(SHOW(&here, GLOB("a\0b", D)), MALFORMED("", "it holds a NUL"));
        eq_str(SHOW(&here, GLOB("codex-project-roots:///etc/*", D)),
               MALFORMED("codex-project-roots:///etc/*", "it is not relative"));
        eq_str(SHOW(&here, GLOB("", R)), "");
}

TEST(without_a_cwd_what_depends_on_it_is_refused)
{
        const struct place nowhere = { .roots = roots, .root_count = 1 };
        const char *refusal = "file system sandbox context with dynamic permissions requires cwd";

        eq_str(SHOW(&nowhere, SPECIAL(PROJECT_ROOTS, W)), refusal);
        eq_str(SHOW(&nowhere, SPECIAL(ROOT, R), GLOB("*.env", D)), refusal);
        eq_str(SHOW(&nowhere, SPECIAL(ROOT, R), GLOB("/**/*.env", D)), "r/ g/**/*.env");
        eq_str(SHOW(&nowhere, SPECIAL(ROOT, W), SPECIAL(PROJECT_ROOTS, W)), "unlimited");
}

TEST(a_path_of_another_system_is_refused)
{
        eq_str(SHOW(&here, SPECIAL(ROOT, W), AT("C:\\x", D)),
               "invalid sandbox permission path: 'C:\\x' is invalid on 'linux'");
}

TEST(a_profile_that_limits_nothing_gives_no_rules)
{
        eq_str(SHOW(&here, SPECIAL(ROOT, W)), "unlimited");
        eq_str(SHOW(&here, SPECIAL(ROOT, W), AT("/a", W), SPECIAL(MINIMAL, R)), "unlimited");
        eq_str(SHOW(&here, AT("/", W)), "w/");
}

TEST(too_much_is_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        char *name = arena_zalloc(&a, RULES_PATH_MAX + 2);
        memset(name, 'x', RULES_PATH_MAX + 1);
        name[0] = '/';
        struct slice *many = arena_alloc(&a, (RULES_MAX + 1) * sizeof(*many));
        for (size_t i = 0; i <= RULES_MAX; i++)
                many[i] = S("/w");
        struct place place = { .cwd = S("/w"), .roots = many, .root_count = RULES_MAX };
        struct profile_entry at = { .kind = TARGET_PATH,
                                    .text = slice_from(name, RULES_PATH_MAX),
                                    .access = W };
        struct profile_entry roots_entry = SPECIAL(PROJECT_ROOTS, W);
        struct profile p = profile_of(&at, 1), q = profile_of(&roots_entry, 1);
        struct rules r;
        struct err err = ERR_INIT;

        eq_int(rules_resolve(&a, &p, &place, &r, &err), 0);
        at.text.n++;
        eq_int(rules_resolve(&a, &p, &place, &r, &err), -ENAMETOOLONG);
        at.kind = TARGET_GLOB;
        at.access = D;
        eq_int(rules_resolve(&a, &p, &place, &r, &err), -ENAMETOOLONG);

        eq_int(rules_resolve(&a, &q, &place, &r, &err), 0);
        eq_u64(r.count, 1);
        place.root_count++;
        eq_int(rules_resolve(&a, &q, &place, &r, &err), -E2BIG);

        roots_entry.subpath = slice_from(name + 1, 4000);
        place.root_count = RULES_BYTES_MAX / 4000 + 1;
        eq_int(rules_resolve(&a, &q, &place, &r, &err), -E2BIG);
}

TEST(the_deepest_rule_decides)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile_entry entries[] = { SPECIAL(ROOT, R), AT("/w", W), AT("/w/a", D), AT("/w/a/b", W),
                                           AT("/w/a/c", R) };
        struct profile p = profile_of(entries, ARRAY_LEN(entries));
        struct rules r;
        struct rule_tree t;
        struct err err = ERR_INIT;
        static const struct {
                struct slice path;
                enum access access;
        } rows[] = {
                { S("/"), R },        { S("/x/y"), R },    { S("/w"), W },     { S("/w2"), R },
                { S("/w/x"), W },     { S("/w/a"), D },    { S("/w/a/x"), D }, { S("/w/a/b/x/y"), W },
                { S("/w/a/c/x"), R }, { S("/w/a/cc"), D },
        };

        eq_int(rules_resolve(&a, &p, &here, &r, &err), 0);
        rule_tree_build(&a, &r, &t);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                eq_int(rule_tree_access(&t, rows[i].path), rows[i].access);
        ok(rules_at(&r, S("/w/a")) && !rules_at(&r, S("/w/b")));

        p.count = 0;
        eq_int(rules_resolve(&a, &p, &here, &r, &err), 0);
        rule_tree_build(&a, &r, &t);
        eq_int(rule_tree_access(&t, S("/")), D);
        eq_int(rule_tree_access(&t, S("/w")), D);
}

TEST(a_path_is_within_itself_and_what_is_above_by_components)
{
        ok(path_is_within(S("/a"), S("/a")) && path_is_within(S("/a/b"), S("/a")));
        ok(path_is_within(S("/a"), S("/")) && path_is_within(S("/"), S("/")));
        ok(!path_is_within(S("/ab"), S("/a")) && !path_is_within(S("/"), S("/a")));
}

static struct slice canonical(struct arena *a, struct profile_entry *entries, size_t count, uint64_t depth)
{
        struct profile p = profile_of(entries, count);
        struct err err = ERR_INIT;
        struct rules r;

        p.glob_depth = depth;
        eq_int(rules_resolve(a, &p, &here, &r, &err), 0);
        return rules_canonical(a, &r);
}

TEST(profiles_that_mean_the_same_have_the_same_canonical_form)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile_entry one[] = { SPECIAL(ROOT, R), SPECIAL(PROJECT_ROOTS, W), GLOB("*.env", D),
                                       SPECIAL(UNKNOWN, D) };
        struct profile_entry other[] = { GLOB("/w/\\{c\\}/*.env", D), AT("/v/[x]", W), AT("/w", W),
                                         SPECIAL(MINIMAL, R),         AT("/", R),      AT("/w", R) };
        struct slice form = canonical(&a, one, ARRAY_LEN(one), 0);

        eq_slice(form, canonical(&a, other, ARRAY_LEN(other), 0));
        eq_slice(form, S("limited some bare 0\0r/\0w/v/[x]\0w/w\0g/w/\\{c\\}/*.env\0"));
        ok(!slice_eq(form, canonical(&a, one, 2, 0)));
        ok(!slice_eq(form, canonical(&a, one, ARRAY_LEN(one), 3)));
        eq_slice(canonical(&a, one, 2, 3), canonical(&a, one, 2, 0));
}

TEST(what_follows_from_the_rules)
{
        _arena_ struct arena a = ARENA_INIT;
        static const struct {
                struct profile_entry entries[2];
                bool reads_all, has_platform;
        } rows[] = {
                { { SPECIAL(ROOT, R), SPECIAL(MINIMAL, R) }, true, false },
                { { SPECIAL(ROOT, R), AT("/a", D) }, false, false },
                { { SPECIAL(ROOT, R), GLOB("*.env", D) }, false, false },
                { { SPECIAL(MINIMAL, R), AT("/a", D) }, false, true },
                { { SPECIAL(MINIMAL, W), AT("/a", R) }, false, true },
                { { SPECIAL(MINIMAL, D), AT("/a", R) }, false, false },
                { { SPECIAL(MINIMAL, R), SPECIAL(ROOT, D) }, false, true },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct profile_entry entries[2] = { rows[i].entries[0], rows[i].entries[1] };
                struct profile p = profile_of(entries, 2);
                struct err err = ERR_INIT;
                struct rules r;
                eq_int(rules_resolve(&a, &p, &here, &r, &err), 0);
                ok(r.limits_files && r.reads_all == rows[i].reads_all);
                ok(r.has_platform == rows[i].has_platform);
        }
}

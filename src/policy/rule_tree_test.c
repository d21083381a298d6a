/* rule_tree_test: one search in the tree finds the same rule as a search for each component of the path. */
#include "policy/rule_tree.h"

#include "policy/rig_internal.h"

static struct rules rules_from(struct arena *a, const char *entries)
{
        struct profile p = rig_profile(a, entries);
        struct place nowhere = { 0 };
        struct err err = ERR_INIT;
        struct rules rules;

        must(rules_resolve(a, &p, &nowhere, &rules, &err) == 0);
        return rules;
}

/* Finds the access without a tree: asks the rules for the path and for each directory above it. */
static enum access access_by_steps(const struct rules *r, struct slice path)
{
        for (;; path = path_parent(path)) {
                const struct rule *rule = rules_at(r, path);
                if (rule || path.n <= 1)
                        return rule ? rule->access : ACCESS_DENY;
        }
}

TEST(a_tree_knows_the_deepest_rule_and_the_one_above_it)
{
        _arena_ struct arena a = ARENA_INIT;
        struct rules rules = rules_from(&a, "r/ w/a d/a/b/c r/a.b w/a/bb d/z/y");
        struct rule_tree t;

        rule_tree_build(&a, &rules, &t);
        eq_slice(rule_tree_find(&t, S("/a/b/c/d"))->path, S("/a/b/c"));
        eq_slice(rule_tree_above(&t, rule_tree_find(&t, S("/a/b/c")))->path, S("/a"));
        eq_slice(rule_tree_find(&t, S("/a/b"))->path, S("/a"));
        eq_slice(rule_tree_find(&t, S("/a.b/x"))->path, S("/a.b"));
        eq_slice(rule_tree_find(&t, S("/a."))->path, S("/"));
        eq_slice(rule_tree_find(&t, S("/z"))->path, S("/"));
        ok(!rule_tree_above(&t, rule_tree_find(&t, S("/"))));

        rules = rules_from(&a, "w/a");
        rule_tree_build(&a, &rules, &t);
        ok(!rule_tree_find(&t, S("/")));
        ok(!rule_tree_find(&t, S("/ab")));
        ok(!rule_tree_find(&t, S("/A")));
        rules = rules_from(&a, "");
        rule_tree_build(&a, &rules, &t);
        eq_int(rule_tree_access(&t, S("/a")), ACCESS_DENY);
        rules = rules_from(&a, "w:root");
        rule_tree_build(&a, &rules, &t);
        eq_int(rule_tree_access(&t, S("/a")), ACCESS_WRITE);
        eq_int(rule_tree_access_protected(&t, S("/.git")), ACCESS_WRITE);
}

TEST(protected_names_need_an_entry_of_their_own)
{
        _arena_ struct arena a = ARENA_INIT;
        struct rules rules = rules_from(&a, "w/ w/a w/b/.git/objects r/c");
        struct rule_tree t;

        rule_tree_build(&a, &rules, &t);
        eq_int(rule_tree_access_protected(&t, S("/a")), ACCESS_WRITE);
        eq_int(rule_tree_access_protected(&t, S("/a/.git")), ACCESS_READ);
        eq_int(rule_tree_access_protected(&t, S("/a/.git/hooks/x")), ACCESS_READ);
        eq_int(rule_tree_access_protected(&t, S("/a/b/.git")), ACCESS_WRITE);
        eq_int(rule_tree_access_protected(&t, S("/.aws")), ACCESS_READ);
        eq_int(rule_tree_access_protected(&t, S("/b/.git/objects")), ACCESS_WRITE);
        eq_int(rule_tree_access_protected(&t, S("/c/.git")), ACCESS_READ);
        eq_int(rule_tree_access(&t, S("/a/.git")), ACCESS_WRITE);
}

/* The names have bytes below and above the slash, to test the order. */
TEST(a_tree_answers_like_the_rules)
{
        static const char *const names[] = { "/a", "/a-", "/a.b", "/a0", "/\x01", "/\xff" };
        unsigned seed = 3;

        for (int run = 0; run < 500; run++) {
                _arena_ struct arena a = ARENA_INIT;
                const char *text = "d/none", *paths[40];
                struct rule_tree t;

                for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                        const char *path = "";
                        for (unsigned depth = 1 + (seed >> 9 & 3); depth > 0; depth--) {
                                seed = seed * 1103515245U + 12345U;
                                path = arena_printf(&a, "%s%s", path, names[(seed >> 16) % ARRAY_LEN(names)]);
                        }
                        paths[i] = path;
                        if (i % 2)
                                text = arena_printf(&a, "%s %c%s", text, "drw"[(seed >> 20) % 3], path);
                }
                struct rules rules = rules_from(&a, text);
                rule_tree_build(&a, &rules, &t);
                for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                        struct slice path = slice_from_str(paths[i]);
                        eq_int(rule_tree_access(&t, path), access_by_steps(&rules, path));
                        const struct rule *rule = rule_tree_find(&t, path), *exact = rules_at(&rules, path);
                        ok(!exact || rule == exact);
                        ok(!rule || path_is_within(path, rule->path));
                }
        }
}

TEST(deep_paths_from_a_client_cost_little)
{
        _arena_ struct arena a = ARENA_INIT;
        enum { LEVELS = 2000 };
        char *deep = arena_alloc(&a, 2 * LEVELS);
        struct profile p = { .entries = arena_zalloc(&a, LEVELS * sizeof(struct profile_entry)) };
        struct place nowhere = { 0 };
        struct err err = ERR_INIT;
        struct rules rules;
        struct rule_tree t;

        /* /b, /a/b, /a/a/b, …: a sibling of the path at every level, and nothing above it. */
        for (size_t i = 0; i < LEVELS; i++)
                memcpy(deep + 2 * i, "/a", 2);
        for (size_t i = 0; i < LEVELS - 1; i++) {
                char *path = arena_dup(&a, slice_from(deep, 2 * i + 2));
                path[2 * i + 1] = 'b';
                p.entries[p.count++] = (struct profile_entry){ .text = slice_from(path, 2 * i + 2) };
        }
        eq_int(rules_resolve(&a, &p, &nowhere, &rules, &err), 0);
        rule_tree_build(&a, &rules, &t);
        /* A search for each component would take nearly a minute. */
        for (size_t i = 0; i < LEVELS; i++)
                ok(!rule_tree_find(&t, slice_from(deep, 2 * i + 2)));
}

/* intersect_test: the intersection has the weaker access at every path, also for random profiles; profiles that cannot be
 * compared are refused. */
#include "policy/intersect.h"

#include "policy/rig_internal.h"
#include "policy/rule_tree.h"

#include <errno.h>

static bool is_link(UNUSED void *arg, struct slice path)
{
        return slice_eq(path, S("/link"));
}

static const char *met_profiles(struct arena *a, struct profile authority, struct profile requested)
{
        struct err err = ERR_INIT;
        struct profile ret;

        int r = profile_intersect(a, &authority, &requested, is_link, NULL, &ret, &err);
        if (r < 0) {
                eq_int(r, -EINVAL);
                return arena_dup(a, slice_from_str(err.text));
        }
        return rig_text(a, &ret);
}

static const char *met(struct arena *a, const char *authority, const char *requested)
{
        return met_profiles(a, rig_profile(a, authority), rig_profile(a, requested));
}

TEST(the_weaker_access_counts_at_each_path)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "r:root", "r:root"), "r:root");
        eq_str(met(&a, "r:root", "w/a"), "r/a");
        eq_str(met(&a, "r:root w/a", "w:root d/b"), "r:root w/a d/b");
        eq_str(met(&a, "w/a", "w/b"), "");
        eq_str(met(&a, "w/a", "w/a/b"), "w/a/b");
        eq_str(met(&a, "w/a d/a/b", "w/a w/a/b/c"), "w/a d/a/b");
        eq_str(met(&a, "w/a d/a/b w/a/b/c", "w/a"), "w/a d/a/b w/a/b/c");
        eq_str(met(&a, "r/ w/tmp", "r:root w:slash_tmp"), "r/ w:slash_tmp");
        eq_str(met(&a, "r:root d/tmp", "r:root w:slash_tmp"), "r:root d/tmp");
        eq_str(met(&a, "", "w/a"), "");
}

TEST(profiles_without_limits_yield)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile none = { .kind = PROFILE_DISABLED, .has_network = true };
        struct profile all = { .is_unrestricted = true, .has_network = true };
        struct profile some = rig_profile(&a, "r:root w:ws"), everything = rig_profile(&a, "w:root");

        some.has_network = true;
        eq_str(met_profiles(&a, none, none), "disabled network ");
        eq_str(met_profiles(&a, none, all), "unrestricted network ");
        eq_str(met_profiles(&a, all, none), "unrestricted network ");
        eq_str(met_profiles(&a, none, some), "network r:root w:ws");
        eq_str(met_profiles(&a, some, none), "network r:root w:ws");
        eq_str(met_profiles(&a, some, all), "network r:root w:ws");
        eq_str(met_profiles(&a, everything, some), "r:root w:ws");
        eq_str(met_profiles(&a, some, everything), "r:root w:ws");
        eq_str(met_profiles(&a, none, everything), "w:root");
}

TEST(a_protected_name_is_opened_by_both_or_not_at_all)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "w/a", "w/a w/a/.git"), "w/a r/a/.git");
        eq_str(met(&a, "w/a w/a/.git", "w/a"), "w/a r/a/.git");
        eq_str(met(&a, "w/a", "w/a/.git/objects"), "r/a/.git/objects");
        eq_str(met(&a, "w/a w/a/.git", "w/a/.git w/a"), "w/a w/a/.git");
        eq_str(met(&a, "w/a", "w/a/b/.git"), "w/a/b/.git");
        eq_str(met(&a, "w/a r/a/.git?", "w/a"), "w/a r/a/.git?");
        eq_str(met(&a, "w:root d/x", "w/.git"), "r/.git");
}

TEST(patterns_of_both_stay)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile one = rig_profile(&a, "r:root dglob(/a/*.k)"),
                       two = rig_profile(&a, "r:root dglob(/b/*)");

        one.glob_depth = 2;
        two.glob_depth = 3;
        eq_str(met_profiles(&a, one, two), "r:root dglob(/a/*.k) dglob(/b/*) depth 3");
        two.glob_depth = 0;
        eq_str(met_profiles(&a, one, two), "r:root dglob(/a/*.k) dglob(/b/*)");
}

TEST(the_temporary_directory_is_passed_on_when_both_name_it)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "r:root w:tmpdir", "r:root w:tmpdir"), "r:root w:tmpdir");
        eq_str(met(&a, "r:root w:tmpdir", "r:root"), "r:root");
        eq_str(met(&a, "r:root w:tmpdir", "r:root d:tmpdir"), "r:root d:tmpdir");
        /* TMPDIR may be above /t/x, so /t/x is denied although nothing seems to grant it. */
        eq_str(met(&a, "w:tmpdir", "w:tmpdir d/t/x"), "d/t/x w:tmpdir");
        /* A path that only one side names may be in a directory that the other side denies. */
        eq_str(met(&a, "w:root d:tmpdir", "w:root d:tmpdir w/t/x"), "w:root d/t/x d:tmpdir");
}

TEST(what_cannot_be_compared_by_name_is_refused)
{
        static const char *const bad[][3] = {
                { "r:minimal", "r:root",
                  "platform-default filesystem permissions cannot be intersected safely" },
                { "r:root", "w:ws/x",
                  "unsupported permission path: workspace permissions must already be materialized" },
                { "dglob(*.k)", "r:root",
                  "unsupported permission path: workspace permissions must already be materialized" },
                { "r:root", "rglob(/a/*)",
                  "unsupported permission path: `/a/*` is a pattern and does not deny" },
                { "r:root", "w:unknown", "unsupported permission path: `:later` is not known" },
                { "r:root", "w/link", "unsupported permission path: `/link` leads through a symbolic link" },
                { "r:root", "rC:\\x", "unsupported permission path: `C:\\x` is no path of this host" },
                { "r:root r/a?", "r:root",
                  "unsupported permission path: `/a` is optional, and no protected name" },
                { "w:root d:tmpdir", "r:root w/a",
                  "unsupported permission path: `:tmpdir` restrictions require executor-local bindings" },
                { "r:root w/a", "w:root r:tmpdir",
                  "unsupported permission path: `:tmpdir` restrictions require executor-local bindings" },
                { "r:root w:tmpdir/x", "r:root",
                  "unsupported permission path: paths below `:tmpdir` require executor-local bindings" },
        };
        struct profile external = { .kind = PROFILE_EXTERNAL }, none = { .kind = PROFILE_DISABLED };
        _arena_ struct arena a = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                eq_str(met(&a, bad[i][0], bad[i][1]), bad[i][2]);
        eq_str(met_profiles(&a, external, none),
               "externally enforced filesystem permissions cannot be intersected safely");
        eq_str(met_profiles(&a, none, external),
               "externally enforced filesystem permissions cannot be intersected safely");
}

TEST(a_reader_gets_the_reads_of_a_profile)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile p = rig_profile(&a, "r:root w:ws r:ws/.git? d/s wglob(*.c) dglob(*.k)"), ret;

        p.has_network = true;
        p.glob_depth = 2;
        ok(profile_intersect_read_only(&a, &p, &ret));
        eq_str(rig_text(&a, &ret), "r:root r:ws r:ws/.git? d/s rglob(*.c) dglob(*.k) depth 2");
        ok(profile_intersect_read_only(&a, &(struct profile){ .kind = PROFILE_DISABLED, .has_network = true },
                                       &ret));
        eq_str(rig_text(&a, &ret), "r:root");
        ok(profile_intersect_read_only(&a, &(struct profile){ .is_unrestricted = true }, &ret));
        eq_str(rig_text(&a, &ret), "r:root");
        ok(!profile_intersect_read_only(&a, &(struct profile){ .kind = PROFILE_EXTERNAL }, &ret));
}

/* --- random profiles ---------------------------------------------------------------------------------------------- */

static const char *const paths[] = {
        "/", "/a", "/a/b", "/a/b/c", "/a/.git", "/a/.git/x", "/a/b/.git", "/tmp", "/tmp/x", "/.git",
};

/* Returns random entries: each path, and TMPDIR, gets an access in three of eight cases. */
static const char *random_entries(struct arena *a, unsigned *seed)
{
        const char *text = "";

        for (size_t i = 0; i <= ARRAY_LEN(paths); i++) {
                *seed = *seed * 1103515245U + 12345U;
                unsigned pick = *seed >> 16 & 7;
                const char *path = i == ARRAY_LEN(paths)         ? ":tmpdir"
                                   : i == 0 && (*seed >> 20 & 1) ? ":root"
                                                                 : paths[i];
                if (pick < 3)
                        text = arena_printf(a, "%s%s%c%s", text, *text ? " " : "", "drw"[pick], path);
        }
        return text;
}

static struct rule_tree resolved(struct arena *a, const struct profile *p, const char *tmpdir)
{
        struct place place = { .tmpdir = slice_from_str(tmpdir) };
        struct rules *rules = arena_new(a, struct rules);
        struct err err = ERR_INIT;
        struct rule_tree t;

        eq_int(rules_resolve(a, p, &place, rules, &err), 0);
        rule_tree_build(a, rules, &t);
        return t;
}

static void check_pair(struct arena *a, const struct profile *one, const struct profile *two,
                       const struct profile *both, const char *tmpdir)
{
        struct rule_tree mine = resolved(a, one, tmpdir), theirs = resolved(a, two, tmpdir);
        struct rule_tree result = resolved(a, both, tmpdir);
        bool has_tmpdir = strstr(rig_text(a, both), ":tmpdir") != NULL;

        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                struct slice path = slice_from_str(paths[i]);
                enum access most = MIN(rule_tree_access(&mine, path), rule_tree_access(&theirs, path));
                ok(rule_tree_access(&result, path) <= most);
                if (*tmpdir)
                        continue;
                most = MIN(rule_tree_access_protected(&mine, path),
                           rule_tree_access_protected(&theirs, path));
                if (has_tmpdir)
                        ok(rule_tree_access_protected(&result, path) <= most);
                else
                        eq_int(rule_tree_access_protected(&result, path), most);
        }
}

/* Wherever TMPDIR is, the result allows nothing that one side forbids; without TMPDIR it allows everything that both allow. */
TEST(no_pair_of_profiles_allows_more_together_than_alone)
{
        static const char *const tmpdirs[] = { "", "/", "/a", "/a/b", "/a/.git", "/tmp", "/z" };
        unsigned seed = 7, compared = 0;

        for (int run = 0; run < 3000; run++) {
                _arena_ struct arena a = ARENA_INIT;
                struct profile one = rig_profile(&a, random_entries(&a, &seed));
                struct profile two = rig_profile(&a, random_entries(&a, &seed)), both;
                struct err err = ERR_INIT;

                if (profile_intersect(&a, &one, &two, NULL, NULL, &both, &err) < 0) {
                        eq_str(err.text, "unsupported permission path: `:tmpdir` restrictions require "
                                         "executor-local bindings");
                        continue;
                }
                compared++;
                for (size_t t = 0; t < ARRAY_LEN(tmpdirs); t++)
                        check_pair(&a, &one, &two, &both, tmpdirs[t]);
        }
        ok(compared > 1000);
}

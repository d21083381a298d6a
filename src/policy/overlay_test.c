/* overlay_test: overlays are normalized, merged, applied to a profile, and limited to what was requested. */
#include "policy/overlay.h"

#include "policy/rig_internal.h"
#include "policy/rule_tree.h"

#include <errno.h>

static const struct slice roots[] = { { "/ws", 3 } };
static const struct place place = { .cwd = { "/ws", 3 }, .roots = roots, .root_count = 1 };

static struct overlay overlay_from(struct arena *a, const char *entries)
{
        struct profile p = rig_profile(a, entries);

        return (struct overlay){ .has_files = p.count > 0, .entries = p.entries, .count = p.count };
}

static const char *overlay_text(struct arena *a, const struct overlay *o)
{
        const char *network = !o->has_network_word ? "" : o->has_network ? "network " : "no-network ";

        eq_int(o->has_files, o->count > 0);
        return arena_printf(a, "%s%s%s", network, rig_entries_text(a, o->entries, o->count),
                            o->glob_depth ? arena_printf(a, " depth %ju", (uintmax_t)o->glob_depth) : "");
}

static struct slice drop_link(void *arg, struct arena *a, struct slice path)
{
        (*(int *)arg)++;
        return slice_starts(path, S("/link/"))
                       ? slice_from_str(arena_printf(a, "/real%.*s", (int)path.n - 5, path.p + 5))
                       : path;
}

TEST(a_normal_overlay_has_nothing_empty_and_nothing_twice)
{
        _arena_ struct arena a = ARENA_INIT;
        struct overlay o = overlay_from(&a, "r/real/x w/link/x r/link/x w:ws dglob(*.k) dglob(*.k) r/link"),
                       ret;
        struct err err = ERR_INIT;
        int asked = 0;

        o.glob_depth = 3;
        o.has_network_word = true;
        eq_int(overlay_normalize(&a, &o, drop_link, &asked, &ret, &err), 0);
        eq_str(overlay_text(&a, &ret), "no-network r/real/x w/real/x w:ws dglob(*.k) r/link depth 3");
        eq_int(asked, 4);

        eq_int(overlay_normalize(&a, &(struct overlay){ .has_files = true, .glob_depth = 3 }, NULL, NULL,
                                 &ret, &err),
               0);
        eq_str(overlay_text(&a, &ret), "");
}

TEST(a_pattern_of_an_overlay_can_only_deny)
{
        _arena_ struct arena a = ARENA_INIT;
        struct overlay o = overlay_from(&a, "wglob(*.c)"), ret;
        struct err err = ERR_INIT;

        eq_int(overlay_normalize(&a, &o, NULL, NULL, &ret, &err), -EINVAL);
        eq_str(err.text, "glob file system permissions only support deny-read entries");
}

TEST(two_overlays_add_up)
{
        _arena_ struct arena a = ARENA_INIT;
        struct overlay one = overlay_from(&a, "r/a dglob(*.k)"), two = overlay_from(&a, "w/b r/a"), ret;

        one.glob_depth = 4;
        one.has_network_word = two.has_network_word = true;
        overlay_merge(&a, &one, &two, &ret);
        eq_str(overlay_text(&a, &ret), "r/a dglob(*.k) w/b depth 4");
        two.has_network = true;
        overlay_merge(&a, &one, &two, &ret);
        eq_str(overlay_text(&a, &ret), "network r/a dglob(*.k) w/b depth 4");
}

TEST(an_overlay_adds_to_a_restricted_profile_only)
{
        _arena_ struct arena a = ARENA_INIT;
        struct overlay o = overlay_from(&a, "w/b d/c dglob(/x/*)");
        struct profile base = rig_profile(&a, "r:root r:root w/b"), ret;

        base.glob_depth = 9; /* the profile has no pattern that uses it */
        overlay_apply(&a, &base, &o, &ret);
        eq_str(rig_text(&a, &ret), "r:root r:root w/b d/c dglob(/x/*)");
        overlay_apply(&a, &(struct profile){ .is_unrestricted = true }, &o, &ret);
        eq_str(rig_text(&a, &ret), "unrestricted ");

        o.has_network = true;
        overlay_apply(&a, &(struct profile){ .kind = PROFILE_EXTERNAL }, &o, &ret);
        eq_str(rig_text(&a, &ret), "external network ");
        overlay_apply(&a, &base, &(struct overlay){ 0 }, &ret);
        eq_str(rig_text(&a, &ret), "r:root r:root w/b depth 9");
}

/* --- intersection ------------------------------------------------------------------------------------------------- */

static const char *met(struct arena *a, const char *requested, const char *granted)
{
        struct overlay r = overlay_from(a, requested), g = overlay_from(a, granted), ret;
        struct err err = ERR_INIT;

        if (overlay_intersect(a, &r, &g, &place, &ret, &err) < 0)
                return arena_dup(a, slice_from_str(err.text));
        return overlay_text(a, &ret);
}

TEST(a_grant_is_kept_when_it_was_asked_for)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "w/a", "w/a"), "w/a");
        eq_str(met(&a, "w/a", "r/a/b"), "r/a/b");
        eq_str(met(&a, "r/a", "w/a"), "");
        eq_str(met(&a, "w/a", "w/"), "");
        eq_str(met(&a, "w/a", "w/ab"), "");
        eq_str(met(&a, "r/a r/b", "r/b"), "r/b");
        eq_str(met(&a, "w:root", "w:root w/a"), "w:root w/a");
        eq_str(met(&a, "", "w/a"), "");
        eq_str(met(&a, "w/a d/a/b", "w/a/b/c"), "");
}

TEST(a_grant_of_the_workspace_becomes_a_path)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "w:ws", "w:ws"), "w/ws");
        eq_str(met(&a, "w:ws", "w:ws/docs"), "w/ws/docs");
        eq_str(met(&a, "w/ws", "w:ws"), "w/ws");
        eq_str(met(&a, "w:root dglob(*.k)", "w:ws"), "w/ws dglob(/ws/*.k)");
}

TEST(specials_without_a_path_need_their_equal)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "r:minimal", "r:minimal"), "r:minimal");
        eq_str(met(&a, "w:minimal", "r:minimal"), "");
        eq_str(met(&a, "r:root", "r:minimal"), "");
        eq_str(met(&a, "w:tmpdir", "w:tmpdir"), "w:tmpdir");
        eq_str(met(&a, "w:root", "w:tmpdir"), "");
        eq_str(met(&a, "r:minimal d/etc/shadow", "r:minimal d/usr/x"), "r:minimal d/etc/shadow d/usr/x");
}

TEST(what_either_side_denies_at_a_grant_comes_along)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "w/a d/a/s d/z", "w/a d/a/t d/y"), "w/a d/a/s d/a/t");
        eq_str(met(&a, "w/a d/a/s", "r/a/b"), "r/a/b");
        eq_str(met(&a, "d/a w/a/b", "w/a/b"), "w/a/b d/a");
        eq_str(met(&a, "w/a dglob(/a/*.k) dglob(/z/*.k)", "w/a dglob(/**/*.e)"),
               "w/a dglob(/a/*.k) dglob(/**/*.e)");
        eq_str(met(&a, "w/a", "w/a d/a"), "w/a d/a");
}

TEST(a_grant_that_a_pattern_of_the_request_denies_is_dropped)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "w/a dglob(/a/*.k)", "w/a/x.k r/a/y"), "r/a/y");
        eq_str(met(&a, "w/a dglob(/a/s)", "w/a/s/below"), "");
}

TEST(what_the_request_wants_less_of_below_a_grant_is_no_more)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "w/a r/a/s", "w/a"), "w/a r/a/s");
        eq_str(met(&a, "w/a r/a/s/t", "w/a d/a/s"), "w/a d/a/s d/a/s/t");
        eq_str(met(&a, "w/a", "w/a r/a/s"), "w/a r/a/s");
}

TEST(a_protected_name_is_opened_only_when_it_was_asked_for)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(met(&a, "w/a", "w/a/.git"), "");
        eq_str(met(&a, "w/a", "r/a/.git"), "r/a/.git");
        eq_str(met(&a, "w/a w/a/.git", "w/a/.git"), "w/a/.git");
        eq_str(met(&a, "w/a", "w/a w/a/.git"), "w/a r/a/.git");
}

TEST(the_network_of_a_grant_needs_both)
{
        _arena_ struct arena a = ARENA_INIT;
        struct overlay no = { .has_network_word = true },
                       yes = { .has_network_word = true, .has_network = true }, ret;
        struct err err = ERR_INIT;

        eq_int(overlay_intersect(&a, &yes, &yes, &place, &ret, &err), 0);
        eq_str(overlay_text(&a, &ret), "network ");
        eq_int(overlay_intersect(&a, &yes, &no, &place, &ret, &err), 0);
        eq_str(overlay_text(&a, &ret), "");
        eq_int(overlay_intersect(&a, &(struct overlay){ 0 }, &yes, &place, &ret, &err), 0);
        eq_str(overlay_text(&a, &ret), "");
}

TEST(depths_of_patterns_that_are_kept_count)
{
        _arena_ struct arena a = ARENA_INIT;
        struct overlay r = overlay_from(&a, "w/a dglob(/a/*.k)"), g = overlay_from(&a, "w/a dglob(/a/*.e)"),
                       ret;
        struct err err = ERR_INIT;

        r.glob_depth = 2;
        g.glob_depth = 5;
        eq_int(overlay_intersect(&a, &r, &g, &place, &ret, &err), 0);
        eq_u64(ret.glob_depth, 5);
        g = overlay_from(&a, "w/a dglob(/z/*.e)");
        eq_int(overlay_intersect(&a, &r, &g, &place, &ret, &err), 0);
        eq_str(overlay_text(&a, &ret), "w/a dglob(/a/*.k) depth 2");
}

TEST(overlays_that_cannot_be_placed_are_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        struct overlay r = overlay_from(&a, "w:ws"), g = overlay_from(&a, "w/a"), ret;
        struct place nowhere = { 0 };
        struct err err = ERR_INIT;

        ok(overlay_intersect(&a, &r, &g, &nowhere, &ret, &err) < 0);
        ok(slice_starts(slice_from_str(met(&a, "w/a dglob(/a/{b)", "w/a")),
                        S("invalid deny-read glob pattern")));
}

TEST(patterns_and_paths_of_an_intersection_are_bounded)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct overlay o = { .entries = arena_zalloc(&a, 4096 * sizeof(struct profile_entry)) }, ret;

        for (int i = 0; i < 1024; i++) {
                struct slice path = slice_from_str(arena_printf(&a, "/some/where/%d/*", i));
                o.entries[o.count++] = (struct profile_entry){ .kind = TARGET_GLOB, .text = path };
                path.n -= 2;
                o.entries[o.count++] =
                        (struct profile_entry){ .kind = TARGET_PATH, .text = path, .access = ACCESS_READ };
        }
        eq_int(overlay_intersect(&a, &o, &o, &place, &ret, &err), -E2BIG);
        eq_str(err.text, "too many patterns for too many paths");
}

/* Random overlays of few paths: the result grants nothing that one of the two does not. */
TEST(an_intersection_grants_nothing_that_one_side_does_not)
{
        static const char *const paths[] = { "/",       "/a",        "/a/b",      "/a/b/c",
                                             "/a/.git", "/a/.git/x", "/a/b/.git", "/d" };
        unsigned seed = 1;

        for (int run = 0; run < 3000; run++) {
                _arena_ struct arena a = ARENA_INIT;
                struct overlay side[2], ret;
                struct rules rules[3];
                struct rule_tree trees[3];
                struct err err = ERR_INIT;

                for (int s = 0; s < 2; s++) {
                        const char *text = "";
                        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                                seed = seed * 1103515245U + 12345U;
                                unsigned pick = seed >> 16 & 7;
                                if (pick < 3)
                                        text = arena_printf(&a, "%s%s%c%s", text, *text ? " " : "",
                                                            "drw"[pick], paths[i]);
                        }
                        side[s] = overlay_from(&a, text);
                }
                eq_int(overlay_intersect(&a, &side[0], &side[1], &place, &ret, &err), 0);
                const struct overlay *all[] = { &side[0], &side[1], &ret };
                for (size_t i = 0; i < 3; i++) {
                        struct profile p = { .entries = all[i]->entries, .count = all[i]->count };
                        eq_int(rules_resolve(&a, &p, &place, &rules[i], &err), 0);
                        rule_tree_build(&a, &rules[i], &trees[i]);
                }
                for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                        enum access got = rule_tree_access(&trees[2], slice_from_str(paths[i]));
                        ok(got <= rule_tree_access(&trees[0], slice_from_str(paths[i])));
                        ok(got <= rule_tree_access(&trees[1], slice_from_str(paths[i])));
                }
        }
}

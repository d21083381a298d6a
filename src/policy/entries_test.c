/* entries_test: when two entries or two targets are the same, and which depth two lists have together. */
#include "policy/entries.h"

#include "policy/rig_internal.h"

TEST(an_entry_is_added_once_and_appended_always)
{
        _arena_ struct arena a = ARENA_INIT;
        _entries_ struct entries s;
        struct profile p = rig_profile(&a, "r/a w/a r/a r/a? r:root r/ r:ws r:ws/x r:unknown rglob(/a) r/a");

        entries_init(&s, &a);
        for (size_t i = 0; i < p.count; i++)
                entries_add(&s, &p.entries[i]);
        eq_str(rig_entries_text(&a, s.list, s.count),
               "r/a w/a r/a? r:root r/ r:ws r:ws/x r:unknown rglob(/a)");
        entries_append(&s, &p.entries[0]);
        eq_str(rig_entries_text(&a, s.list, s.count),
               "r/a w/a r/a? r:root r/ r:ws r:ws/x r:unknown rglob(/a) r/a");
}

TEST(accesses_are_found_by_target)
{
        _arena_ struct arena a = ARENA_INIT;
        _entries_ struct entries s;
        struct profile p = rig_profile(&a, "r/a w/a d/b? w:root r/tmp w:ws/x d:tmpdir");
        static const struct {
                const char *entry;
                unsigned accesses;
        } wanted[] = {
                { "d/a", 1U << ACCESS_READ | 1U << ACCESS_WRITE },
                { "r/b", 1U << ACCESS_DENY },
                { "r/", 1U << ACCESS_WRITE },
                { "r:slash_tmp", 1U << ACCESS_READ },
                { "r:ws/x", 1U << ACCESS_WRITE },
                { "r:ws", 0 },
                { "r:tmpdir", 1U << ACCESS_DENY },
                { "rglob(/a)", 0 },
                { "r:root/a", 0 }, /* a path below the root is not the root */
                { "r:minimal", 0 },
        };

        entries_init(&s, &a);
        for (size_t i = 0; i < p.count; i++)
                entries_append(&s, &p.entries[i]);
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
                struct profile_entry e = rig_entry(slice_from_str(wanted[i].entry));
                eq_int(entries_accesses(&s, &e), wanted[i].accesses);
        }
}

TEST(the_index_agrees_with_the_rule_for_targets)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile p =
                rig_profile(&a, "r/a r/ r:root r:root/a r/tmp r:slash_tmp r:slash_tmp/a r:ws r:ws/a "
                                "r:tmpdir r:minimal r:unknown r:unknown/a rglob(/a) rglob(a) r/a/b");

        for (size_t i = 0; i < p.count; i++) {
                _entries_ struct entries s;
                entries_init(&s, &a);
                entries_append(&s, &p.entries[i]);
                for (size_t k = 0; k < p.count; k++)
                        eq_int(entries_accesses(&s, &p.entries[k]) != 0,
                               profile_same_target(&p.entries[i], &p.entries[k]));
        }
}

TEST(names_are_protected_by_their_last_component)
{
        ok(path_is_protected(S("/a/.git")));
        ok(path_is_protected(S(".codex")));
        ok(path_is_protected(S("/.aws")));
        ok(!path_is_protected(S("/a/.git/hooks")));
        ok(!path_is_protected(S("/a/x.git")));
        ok(!path_is_protected(S("/")));
        ok(!path_is_protected(S("")));
}

static uint64_t depth_of(const char *first, uint64_t first_depth, const char *second, uint64_t second_depth)
{
        _arena_ struct arena a = ARENA_INIT;
        struct profile p = rig_profile(&a, first), q = rig_profile(&a, second);

        return entries_unite_depths(p.entries, p.count, first_depth, q.entries, q.count, second_depth);
}

TEST(only_lists_with_denied_patterns_have_a_say_in_the_depth)
{
        eq_u64(depth_of("dglob(*.a)", 2, "dglob(*.b)", 5), 5);
        eq_u64(depth_of("dglob(*.a)", 2, "dglob(*.b)", 0), 0);
        eq_u64(depth_of("dglob(*.a)", 2, "d/b", 0), 2);
        eq_u64(depth_of("rglob(*.a)", 2, "dglob(*.b)", 7), 7);
        eq_u64(depth_of("d/a", 2, "", 7), 0);
}

/* overlay_intersect: limits the permissions that were granted to those that were requested (overlay.h).
 *
 * The first step keeps the grants that the request covers. The second step adds the restrictions of both sides. The second
 * step alone guarantees that the result grants nothing that one side does not grant.
 */
#include "policy/entries.h"
#include "policy/overlay.h"
#include "policy/pattern.h"
#include "policy/rule_tree.h"

#include <errno.h>

ACCESS_COMPARED(3);

/* One of the two overlays, resolved to rules of the place. */
struct side {
        struct profile profile;
        struct rules rules;
        struct rule_tree tree;
        const struct pattern **patterns; /* rules.globs, compiled */
        struct entries entries;          /* as given, for targets that are not paths */
};

struct intersection {
        struct arena *arena;
        const struct place *place;
        struct side requested, granted;
        struct entries kept;   /* the result */
        struct rules grants;   /* the grants that the first step kept */
        struct rule_tree tree; /* the tree of `grants` */
        bool keeps_all;        /* the first step kept `/` or a target without a path */
        struct err *err;
};

static void intersection_release(struct intersection *m)
{
        entries_release(&m->requested.entries);
        entries_release(&m->granted.entries);
        entries_release(&m->kept);
}
#define _intersection_ CLEANUP(intersection_release)

/* --- resolving the two sides -------------------------------------------------------------------------------------- */

static int side_resolve(struct intersection *m, struct side *side, const struct overlay *o)
{
        side->profile =
                (struct profile){ .entries = o->entries, .count = o->count, .glob_depth = o->glob_depth };
        for (size_t i = 0; i < o->count; i++)
                entries_append(&side->entries, &o->entries[i]);
        int r = rules_resolve(m->arena, &side->profile, m->place, &side->rules, m->err);
        if (r < 0)
                return r;
        rule_tree_build(m->arena, &side->rules, &side->tree);

        size_t count = side->rules.glob_count;
        side->patterns = arena_alloc(m->arena, (count + 1) * sizeof(struct pattern *));
        for (size_t i = 0; i < count; i++) {
                r = pattern_compile(m->arena, side->rules.globs[i], &side->patterns[i], m->err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool side_grants(const struct side *side, struct slice path, enum access access)
{
        for (size_t i = 0; i < side->rules.glob_count; i++) {
                if (pattern_covers(side->patterns[i], path))
                        return false;
        }
        return rule_tree_access_protected(&side->tree, path) >= access;
}

/* --- the first step: grants that the request covers --------------------------------------------------------------- */

static bool is_everything(const struct profile_entry *e)
{
        return e->kind == TARGET_SPECIAL && e->special == SPECIAL_ROOT && e->subpath.n == 0;
}

static void keep(struct intersection *m, const struct profile_entry *e)
{
        m->keeps_all |= e->kind == TARGET_SPECIAL || e->text.n == 1;
        entries_add(&m->kept, e);
}

/* Checks each path of one granted entry separately. */
static int keep_paths(struct intersection *m, struct profile_entry *e)
{
        struct profile alone = { .entries = e, .count = 1 };
        struct rules rules;

        int r = rules_resolve(m->arena, &alone, m->place, &rules, m->err);
        if (r < 0)
                return r;
        if (rules.count == 0 && e->kind == TARGET_SPECIAL && e->special != SPECIAL_PROJECT_ROOTS &&
            entries_have(&m->requested.entries, e))
                keep(m, e);
        for (size_t i = 0; i < rules.count; i++) {
                struct profile_entry path = entry_for_path(rules.list[i].path, e->access);
                path.skips_missing = e->skips_missing;
                if (side_grants(&m->requested, path.text, e->access))
                        keep(m, &path);
        }
        return 0;
}

static int keep_grants(struct intersection *m)
{
        for (size_t i = 0; i < m->granted.profile.count; i++) {
                struct profile_entry *e = &m->granted.profile.entries[i];
                if (e->access == ACCESS_DENY || e->kind == TARGET_GLOB)
                        continue;
                if (!is_everything(e)) {
                        int r = keep_paths(m, e);
                        if (r < 0)
                                return r;
                } else if (side_grants(&m->requested, S("/"), e->access)) {
                        keep(m, e);
                }
        }
        return 0;
}

/* --- the second step: restrictions of both sides ------------------------------------------------------------------ */

/* Marks the rules of a side that are above a kept grant. */
static bool *mark_above(struct intersection *m, const struct side *side)
{
        bool *is_above = arena_zalloc(m->arena, side->rules.count + 1);

        for (size_t i = 0; i < m->grants.count; i++) {
                const struct rule *rule = rule_tree_find(&side->tree, m->grants.list[i].path);
                for (; rule && !is_above[rule - side->rules.list]; rule = rule_tree_above(&side->tree, rule))
                        is_above[rule - side->rules.list] = true;
        }
        return is_above;
}

static void deny_paths(struct intersection *m, const struct side *side)
{
        const struct rules *rules = &side->rules;
        const bool *is_above = mark_above(m, side);

        for (size_t i = 0; i < rules->count; i++) {
                const struct rule *rule = &rules->list[i];
                struct profile_entry e = entry_for_path(rule->path, ACCESS_DENY);
                if (rule->access == ACCESS_DENY &&
                    (m->keeps_all || is_above[i] || rule_tree_find(&m->tree, rule->path)))
                        entries_add(&m->kept, &e);
        }
        /* A target without a path may overlap any rule. */
        for (size_t i = 0; i < side->profile.count; i++) {
                const struct profile_entry *e = &side->profile.entries[i];
                bool has_no_path = e->kind == TARGET_SPECIAL &&
                                   (e->special == SPECIAL_TMPDIR || e->special == SPECIAL_MINIMAL ||
                                    e->special == SPECIAL_UNKNOWN);
                if (e->access == ACCESS_DENY && has_no_path)
                        entries_add(&m->kept, e);
        }
}

/* Adds the weaker accesses that a side gives below a kept grant. */
static void narrow_paths(struct intersection *m, const struct side *side)
{
        for (size_t i = 0; i < side->rules.count; i++) {
                struct slice path = side->rules.list[i].path;
                enum access wanted = rule_tree_access_protected(&m->requested.tree, path);
                enum access given = rule_tree_access_protected(&m->granted.tree, path);
                struct profile_entry e = entry_for_path(path, MIN(wanted, given));
                if (e.access < rule_tree_access(&m->tree, path))
                        entries_add(&m->kept, &e);
        }
}

static bool pattern_overlaps(const struct intersection *m, const struct pattern *p)
{
        struct slice prefix = pattern_prefix(p);

        if (m->keeps_all || rule_tree_find(&m->tree, prefix))
                return true;
        for (size_t i = 0; i < m->grants.count; i++) {
                struct slice path = m->grants.list[i].path;
                if (path_is_within(path, prefix) &&
                    (pattern_covers(p, path) || pattern_may_match_below(p, path)))
                        return true;
        }
        return false;
}

/* Adds the denied patterns of a side to the result, and copies the entries to `ret`. Returns their number. */
static size_t deny_patterns(struct intersection *m, const struct side *side, struct profile_entry *ret)
{
        size_t n = 0;

        for (size_t i = 0; i < side->rules.glob_count; i++) {
                if (!pattern_overlaps(m, side->patterns[i]))
                        continue;
                ret[n] = (struct profile_entry){ .kind = TARGET_GLOB,
                                                 .text = side->rules.globs[i],
                                                 .access = ACCESS_DENY };
                entries_add(&m->kept, &ret[n++]);
        }
        return n;
}

static int take_away(struct intersection *m, uint64_t *ret_depth)
{
        const struct side *wanted = &m->requested, *given = &m->granted;
        struct profile grants = entries_profile(&m->kept, 0, false);
        struct profile_entry *first =
                arena_alloc(m->arena, (wanted->rules.glob_count + 1) * sizeof(struct profile_entry));
        struct profile_entry *second =
                arena_alloc(m->arena, (given->rules.glob_count + 1) * sizeof(struct profile_entry));

        int r = rules_resolve(m->arena, &grants, m->place, &m->grants, m->err);
        if (r < 0)
                return r;
        rule_tree_build(m->arena, &m->grants, &m->tree);
        deny_paths(m, wanted);
        deny_paths(m, given);
        narrow_paths(m, wanted);
        narrow_paths(m, given);
        size_t first_count = deny_patterns(m, wanted, first);
        size_t second_count = deny_patterns(m, given, second);
        *ret_depth = entries_unite_depths(first, first_count, wanted->rules.glob_depth, second, second_count,
                                          given->rules.glob_depth);
        return 0;
}

static size_t bytes_of_patterns(const struct rules *r)
{
        size_t n = 0;

        for (size_t i = 0; i < r->glob_count; i++)
                n += r->globs[i].n;
        return n;
}

static size_t bytes_of_paths(const struct rules *r)
{
        size_t n = 0;

        for (size_t i = 0; i < r->count; i++)
                n += r->list[i].path.n;
        return n;
}

/* Bounds the work of comparing every pattern with every granted path. Each factor is at most RULES_BYTES_MAX, so the product
 * does not overflow. */
static int check_work(struct intersection *m)
{
        uint64_t patterns = bytes_of_patterns(&m->requested.rules) + bytes_of_patterns(&m->granted.rules);
        uint64_t paths = bytes_of_paths(&m->granted.rules);

        if (patterns * paths > OVERLAY_WORK_MAX)
                return err_set(m->err, 0, -E2BIG, "too many patterns for too many paths");
        return 0;
}

int overlay_intersect(struct arena *a, const struct overlay *requested, const struct overlay *granted,
                      const struct place *place, struct overlay *ret, struct err *err)
{
        bool has_network = requested->has_network && granted->has_network;
        struct overlay result = { .has_network_word = has_network, .has_network = has_network };
        _intersection_ struct intersection m = { .arena = a, .place = place, .err = err };

        entries_init(&m.requested.entries, a);
        entries_init(&m.granted.entries, a);
        entries_init(&m.kept, a);
        int r = side_resolve(&m, &m.requested, requested);
        if (r >= 0)
                r = side_resolve(&m, &m.granted, granted);
        if (r >= 0)
                r = check_work(&m);
        if (r >= 0)
                r = keep_grants(&m);
        if (r >= 0 && m.kept.count > 0)
                r = take_away(&m, &result.glob_depth);
        if (r < 0)
                return r;

        result.has_files = m.kept.count > 0;
        result.entries = m.kept.list;
        result.count = m.kept.count;
        *ret = result;
        return 0;
}

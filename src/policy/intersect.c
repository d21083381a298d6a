/* intersect: computes the profile that grants only what two profiles both grant.
 *
 * Access changes only at paths that one of the profiles names. So the result has the weaker of the two accesses at each
 * of these paths. A protected name stays protected unless both sides have an entry for it.
 *
 * The path of TMPDIR is not known here. When both sides grant it, the entry is passed on. When a side restricts TMPDIR, it
 * could be restricting any path, so the restriction counts at every path that this side does not name. Protected names
 * directly inside of TMPDIR are not searched for.
 */
#include "policy/intersect.h"

#include "policy/entries.h"
#include "policy/rule_tree.h"

#include <errno.h>

ACCESS_COMPARED(3);

struct side {
        const struct profile *profile;
        struct rules rules;
        struct rule_tree tree;
        struct entries entries;
        unsigned tmpdir; /* the accesses of entries for TMPDIR, as bits */
};

struct pair {
        struct arena *arena;
        struct side authority, requested; /* the profile that limits, and the one that is limited */
        path_has_link has_link;
        void *arg;
        struct err *err;
};

static void pair_release(struct pair *p)
{
        entries_release(&p->authority.entries);
        entries_release(&p->requested.entries);
}
#define _pair_ CLEANUP(pair_release)

/* --- refusing profiles that cannot be compared -------------------------------------------------------------------- */

static int unsupported(struct pair *p, const char *why)
{
        return err_set(p->err, 0, -EINVAL, "unsupported permission path: %s", why);
}

static int unsupported_text(struct pair *p, struct slice text, const char *why)
{
        return err_set(p->err, 0, -EINVAL, "unsupported permission path: `%.*s` %s", SLICE(text), why);
}

static int check_special(struct pair *p, const struct profile_entry *e)
{
        switch (e->special) {
        case SPECIAL_PROJECT_ROOTS:
                return unsupported(p, "workspace permissions must already be materialized");
        case SPECIAL_MINIMAL:
                return err_set(p->err, 0, -EINVAL,
                               "platform-default filesystem permissions cannot be intersected safely");
        case SPECIAL_UNKNOWN:
                return unsupported_text(p, e->text, "is not known");
        case SPECIAL_TMPDIR:
                if (e->subpath.n > 0)
                        return unsupported(p, "paths below `:tmpdir` require executor-local bindings");
                return 0;
        case SPECIAL_ROOT:
        case SPECIAL_SLASH_TMP:
                return 0;
        }
        return unsupported(p, "it is not known");
}

static int check_entry(struct pair *p, const struct profile_entry *e)
{
        struct slice name = e->kind == TARGET_SPECIAL ? e->subpath : e->text;

        if (e->kind == TARGET_GLOB) {
                if (e->access != ACCESS_DENY)
                        return unsupported_text(p, e->text, "is a pattern and does not deny");
                if (!slice_starts(e->text, S("/")))
                        return unsupported(p, "workspace permissions must already be materialized");
                return 0;
        }
        if (e->kind == TARGET_SPECIAL) {
                int r = check_special(p, e);
                if (r < 0)
                        return r;
        } else if (profile_path_is_foreign(e->text)) {
                return unsupported_text(p, e->text, "is no path of this host");
        } else if (p->has_link && p->has_link(p->arg, e->text)) {
                return unsupported_text(p, e->text, "leads through a symbolic link");
        }
        if (e->skips_missing && !path_is_protected(name))
                return unsupported_text(p, name, "is optional, and no protected name");
        return 0;
}

/* Refuses when one side restricts TMPDIR and the other does not name it. */
static int check_tmpdir(struct pair *p, const struct side *side, const struct side *other)
{
        unsigned limits = 1U << ACCESS_READ | 1U << ACCESS_DENY;

        if ((side->tmpdir & limits) && !other->tmpdir)
                return unsupported(p, "`:tmpdir` restrictions require executor-local bindings");
        return 0;
}

static int side_resolve(struct pair *p, struct side *side)
{
        static const struct place nowhere = { 0 };
        struct profile_entry tmpdir = entry_for_special(SPECIAL_TMPDIR, ACCESS_READ);

        for (size_t i = 0; i < side->profile->count; i++) {
                int r = check_entry(p, &side->profile->entries[i]);
                if (r < 0)
                        return r;
                entries_append(&side->entries, &side->profile->entries[i]);
        }
        side->tmpdir = entries_accesses(&side->entries, &tmpdir);
        int r = rules_resolve(p->arena, side->profile, &nowhere, &side->rules, p->err);
        if (r >= 0)
                rule_tree_build(p->arena, &side->rules, &side->tree);
        return r;
}

/* --- the weaker of two accesses ----------------------------------------------------------------------------------- */

/* Returns which of several accesses to one target counts: deny, then write, then read. */
static enum access strongest(unsigned accesses)
{
        if (accesses & (1U << ACCESS_DENY))
                return ACCESS_DENY;
        return accesses & (1U << ACCESS_WRITE) ? ACCESS_WRITE : ACCESS_READ;
}

static enum access side_access(const struct side *side, struct slice path)
{
        enum access access = rule_tree_access_protected(&side->tree, path);

        if (!side->tmpdir || rules_at(&side->rules, path))
                return access;
        return MIN(access, strongest(side->tmpdir));
}

static enum access pair_access(const struct pair *p, struct slice path)
{
        enum access authority = side_access(&p->authority, path);
        enum access requested = side_access(&p->requested, path);

        return MIN(authority, requested);
}

/* --- making the result -------------------------------------------------------------------------------------------- */

static bool has_optional(struct side *side, struct slice path)
{
        struct profile_entry e = entry_for_path(path, ACCESS_READ);

        e.skips_missing = true;
        return entries_have(&side->entries, &e);
}

static bool has_plain(struct side *side, struct slice path)
{
        for (enum access access = ACCESS_DENY; access <= ACCESS_WRITE; access++) {
                struct profile_entry e = entry_for_path(path, access);
                if (entries_have(&side->entries, &e))
                        return true;
        }
        return false;
}

/* Makes the entry for a path. `/` and `/tmp` become special targets, unless a side has an entry for the plain path: the path `/`
 * never lifts all limits, as the special root may, and the special slash_tmp has no effect where /tmp is not a directory. A
 * writable /tmp always becomes slash_tmp, because where that has no effect it only grants less. */
static struct profile_entry named_entry(struct pair *p, struct slice path, enum access access)
{
        struct profile_entry e = entry_for_path(path, access);
        bool is_plain = has_plain(&p->authority, path) || has_plain(&p->requested, path);

        if (path.n == 1 && !is_plain)
                return entry_for_special(SPECIAL_ROOT, access);
        if (slice_eq(path, S("/tmp")) && (access == ACCESS_WRITE || !is_plain))
                return entry_for_special(SPECIAL_SLASH_TMP, access);
        e.skips_missing = access == ACCESS_READ &&
                          (has_optional(&p->authority, path) || has_optional(&p->requested, path));
        return e;
}

static void add_paths(struct pair *p, const struct rules *rules, bool has_tmpdir, struct entries *s)
{
        for (size_t i = 0; i < rules->count; i++) {
                struct slice path = rules->list[i].path;
                enum access access = pair_access(p, path);
                bool is_denied_above = path.n == 1 || pair_access(p, path_parent(path)) == ACCESS_DENY;
                /* A path that nothing grants needs no denial, unless TMPDIR may be above it. */
                if (access == ACCESS_DENY && is_denied_above && !has_tmpdir)
                        continue;
                struct profile_entry e = named_entry(p, path, access);
                entries_add(s, &e);
        }
}

static void add_patterns(const struct profile *p, struct entries *s)
{
        for (size_t i = 0; i < p->count; i++) {
                if (p->entries[i].kind == TARGET_GLOB)
                        entries_add(s, &p->entries[i]);
        }
}

static int compare_sides(struct pair *p, struct profile *ret)
{
        struct side *authority = &p->authority, *requested = &p->requested;
        bool has_tmpdir = authority->tmpdir && requested->tmpdir;
        _entries_ struct entries s;

        entries_init(&s, p->arena);
        add_paths(p, &authority->rules, has_tmpdir, &s);
        add_paths(p, &requested->rules, has_tmpdir, &s);
        if (has_tmpdir) {
                enum access mine = strongest(authority->tmpdir), theirs = strongest(requested->tmpdir);
                struct profile_entry e = entry_for_special(SPECIAL_TMPDIR, MIN(mine, theirs));
                entries_add(&s, &e);
        }
        add_patterns(authority->profile, &s);
        add_patterns(requested->profile, &s);

        const struct profile *a = authority->profile, *b = requested->profile;
        uint64_t depth = entries_unite_depths(a->entries, a->count, a->glob_depth, b->entries, b->count,
                                              b->glob_depth);
        *ret = entries_profile(&s, depth, a->has_network && b->has_network);
        return 0;
}

/* Returns the limited profile when the other has no limits; NULL when both are limited. */
static const struct profile *only_limited(const struct profile *authority, const struct profile *requested)
{
        if (authority->kind == PROFILE_DISABLED)
                return requested;
        if (requested->kind == PROFILE_DISABLED)
                return authority;
        if (!profile_limits_files(authority))
                return requested;
        return profile_limits_files(requested) ? NULL : authority;
}

int profile_intersect(struct arena *a, const struct profile *authority, const struct profile *requested,
                      path_has_link has_link, void *arg, struct profile *ret, struct err *err)
{
        _pair_ struct pair p = {
                .arena = a,
                .authority = { .profile = authority },
                .requested = { .profile = requested },
                .has_link = has_link,
                .arg = arg,
                .err = err,
        };

        entries_init(&p.authority.entries, a);
        entries_init(&p.requested.entries, a);
        if (authority->kind == PROFILE_EXTERNAL || requested->kind == PROFILE_EXTERNAL)
                return err_set(err, 0, -EINVAL,
                               "externally enforced filesystem permissions cannot be intersected safely");
        const struct profile *limited = only_limited(authority, requested);
        if (limited) {
                *ret = *limited;
                ret->has_network = authority->has_network && requested->has_network;
                return 0;
        }

        int r = side_resolve(&p, &p.authority);
        if (r >= 0)
                r = side_resolve(&p, &p.requested);
        if (r >= 0)
                r = check_tmpdir(&p, &p.authority, &p.requested);
        if (r >= 0)
                r = check_tmpdir(&p, &p.requested, &p.authority);
        return r < 0 ? r : compare_sides(&p, ret);
}

bool profile_intersect_read_only(struct arena *a, const struct profile *p, struct profile *ret)
{
        _entries_ struct entries s;

        entries_init(&s, a);
        if (p->kind == PROFILE_EXTERNAL)
                return false;
        if (p->kind == PROFILE_DISABLED || p->is_unrestricted) {
                struct profile_entry e = entry_for_special(SPECIAL_ROOT, ACCESS_READ);
                entries_append(&s, &e);
        }
        for (size_t i = 0; i < p->count; i++) {
                struct profile_entry e = p->entries[i];
                e.access = MIN(e.access, ACCESS_READ);
                entries_append(&s, &e);
        }
        *ret = entries_profile(&s, p->glob_depth, false);
        return true;
}

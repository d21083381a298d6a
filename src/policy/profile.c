/* profile: answers questions that need only the profile: does it grant the whole disk, are two targets the same?
 *
 * The entries are not resolved for a place. The answers about the whole disk decide whether a sandbox is needed at all, so
 * an entry that might take something away counts as if it did.
 */
#include "policy/profile.h"

ACCESS_COMPARED(3);

static bool is_restricted(const struct profile *p)
{
        return p->kind == PROFILE_MANAGED && !p->is_unrestricted;
}

static bool is_special(const struct profile_entry *e, enum special special)
{
        return e->kind == TARGET_SPECIAL && e->special == special;
}

static bool is_root(const struct profile_entry *e)
{
        return is_special(e, SPECIAL_ROOT) && !e->subpath.p;
}

/* Returns the path of an entry whose path does not depend on the place; otherwise p == NULL. */
static struct slice fixed_path(const struct profile_entry *e)
{
        if (e->kind == TARGET_PATH)
                return e->text;
        if (is_root(e))
                return S("/");
        if (is_special(e, SPECIAL_SLASH_TMP) && !e->subpath.p)
                return S("/tmp");
        return (struct slice){ 0 };
}

bool profile_path_is_foreign(struct slice path)
{
        return path.n == 0 || path.p[0] != '/';
}

bool profile_same_target(const struct profile_entry *a, const struct profile_entry *b)
{
        struct slice path_a = fixed_path(a), path_b = fixed_path(b);

        if (path_a.p || path_b.p)
                return path_a.p && path_b.p && slice_eq(path_a, path_b);
        return a->kind == b->kind && (a->kind != TARGET_SPECIAL || a->special == b->special) &&
               slice_eq(a->text, b->text) && slice_eq(a->subpath, b->subpath);
}

static bool has_write_to_target(const struct profile *p, const struct profile_entry *e)
{
        for (size_t i = 0; i < p->count; i++) {
                if (p->entries[i].access == ACCESS_WRITE && profile_same_target(&p->entries[i], e))
                        return true;
        }
        return false;
}

/* Could the entry take something away where everything is writable? An entry for a path of another operating system
 * could not, but it counts all the same: its profile was made for another host and must not run without a sandbox here. */
static bool is_narrowing(const struct profile *p, const struct profile_entry *e)
{
        if (e->kind == TARGET_GLOB)
                return true;
        if (e->kind == TARGET_PATH && profile_path_is_foreign(e->text))
                return true;
        if (e->access == ACCESS_WRITE || is_special(e, SPECIAL_MINIMAL) || is_special(e, SPECIAL_UNKNOWN))
                return false;
        return e->access == ACCESS_DENY || !has_write_to_target(p, e);
}

bool profile_writes_all(const struct profile *p)
{
        bool has_root = false;

        if (!is_restricted(p))
                return true;
        for (size_t i = 0; i < p->count && !has_root; i++)
                has_root = is_root(&p->entries[i]) && p->entries[i].access == ACCESS_WRITE;
        for (size_t i = 0; i < p->count && has_root; i++) {
                if (is_narrowing(p, &p->entries[i]))
                        return false;
        }
        return has_root;
}

bool profile_limits_files(const struct profile *p)
{
        return is_restricted(p) && !profile_writes_all(p);
}

bool profile_must_enforce(const struct profile *p)
{
        return p->kind != PROFILE_DISABLED && (!p->has_network || profile_limits_files(p));
}

bool profile_needs_cwd(const struct profile *p)
{
        for (size_t i = 0; is_restricted(p) && i < p->count; i++) {
                const struct profile_entry *e = &p->entries[i];
                if (is_special(e, SPECIAL_PROJECT_ROOTS))
                        return true;
                if (e->kind == TARGET_GLOB && !slice_starts(e->text, S("/")))
                        return true;
        }
        return false;
}

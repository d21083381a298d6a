/* legacy: converts the sandbox policies of older clients to profiles and back.
 *
 * The order of entries has no meaning here, but clients compare it, so it follows the reference server.
 */
#include "policy/legacy.h"

#include "base/uri.h"
#include "policy/entries.h"

#include <errno.h>

ACCESS_COMPARED(3);

static const char outside_text[] =
        "permissions profile requests filesystem writes outside the workspace root, which is not supported "
        "until the runtime enforces FileSystemSandboxPolicy directly";

/* --- policy to profile -------------------------------------------------------------------------------------------- */

static void add_special(struct entries *s, enum special special, enum access access)
{
        struct profile_entry e = entry_for_special(special, access);

        entries_add(s, &e);
}

static void add_path(struct entries *s, struct slice path, enum access access)
{
        struct profile_entry e = entry_for_path(path, access);

        entries_add(s, &e);
}

static bool is_within_any(struct slice path, const struct slice *above, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                if (path_is_within(path, above[i]))
                        return true;
        }
        return false;
}

/* Is this readable root below a writable one? Then it had no effect in the policy. As an entry it would take the write access away,
 * so it is left out. */
static bool is_writable_anyway(const struct sandbox_policy *policy, const struct place *place,
                               struct slice path)
{
        if (policy->kind != SANDBOX_POLICY_WORKSPACE_WRITE)
                return false;
        if (is_within_any(path, policy->writable_roots, policy->writable_root_count))
                return true;
        if (!policy->excludes_slash_tmp && path_is_within(path, S("/tmp")))
                return true;
        if (!place)
                return false;
        bool has_tmpdir = place->tmpdir.n > 0 && place->tmpdir.p[0] == '/';
        return (place->cwd.p && path_is_within(path, place->cwd)) ||
               is_within_any(path, place->roots, place->root_count) ||
               (has_tmpdir && !policy->excludes_tmpdir && path_is_within(path, place->tmpdir));
}

static void add_reads(struct entries *s, const struct sandbox_policy *policy, const struct place *place)
{
        const struct read_access *read = &policy->read;

        if (!read->is_restricted) {
                add_special(s, SPECIAL_ROOT, ACCESS_READ);
                return;
        }
        if (policy->kind == SANDBOX_POLICY_READ_ONLY)
                add_special(s, SPECIAL_PROJECT_ROOTS, ACCESS_READ);
        if (read->has_platform)
                add_special(s, SPECIAL_MINIMAL, ACCESS_READ);
        for (size_t i = 0; i < read->root_count; i++) {
                if (!is_writable_anyway(policy, place, read->roots[i]))
                        add_path(s, read->roots[i], ACCESS_READ);
        }
}

/* Adds a read-only entry, unless the policy has its own entry for the target. */
static void protect(struct entries *s, struct profile_entry e)
{
        e.access = ACCESS_READ;
        e.skips_missing = true;
        if (!entries_accesses(s, &e))
                entries_append(s, &e);
}

static void add_protected(struct entries *s, const struct policy_host *host)
{
        for (size_t i = 0; rules_protected_names[i]; i++) {
                struct profile_entry e = entry_for_special(SPECIAL_PROJECT_ROOTS, ACCESS_READ);
                e.subpath = slice_from_str(rules_protected_names[i]);
                protect(s, e);
        }
        for (size_t i = 0; i < host->protected_count; i++)
                protect(s, entry_for_path(host->protected_paths[i], ACCESS_READ));

        /* .codex in the cwd is protected also when it does not exist: the next client that starts here would trust its content. */
        if (host->place && host->place->cwd.p) {
                struct slice cwd = host->place->cwd;
                const char *base = cwd.n > 1 ? arena_dup(s->arena, cwd) : "";
                protect(s, entry_for_path(slice_from_str(arena_printf(s->arena, "%s/.codex", base)),
                                          ACCESS_READ));
        }
}

void sandbox_policy_to_profile(struct arena *a, const struct sandbox_policy *policy,
                               const struct policy_host *host, struct profile *ret)
{
        static const struct policy_host nothing_known = { 0 };
        _entries_ struct entries s;

        entries_init(&s, a);
        if (!host)
                host = &nothing_known;
        switch (policy->kind) {
        case SANDBOX_POLICY_FULL_ACCESS:
                *ret = (struct profile){ .kind = PROFILE_DISABLED, .has_network = true };
                return;
        case SANDBOX_POLICY_EXTERNAL:
                *ret = (struct profile){ .kind = PROFILE_EXTERNAL, .has_network = policy->has_network };
                return;
        case SANDBOX_POLICY_READ_ONLY:
                add_reads(&s, policy, host->place);
                break;
        case SANDBOX_POLICY_WORKSPACE_WRITE:
                add_reads(&s, policy, host->place);
                add_special(&s, SPECIAL_PROJECT_ROOTS, ACCESS_WRITE);
                if (!policy->excludes_slash_tmp)
                        add_special(&s, SPECIAL_SLASH_TMP, ACCESS_WRITE);
                if (!policy->excludes_tmpdir)
                        add_special(&s, SPECIAL_TMPDIR, ACCESS_WRITE);
                for (size_t i = 0; i < policy->writable_root_count; i++)
                        add_path(&s, policy->writable_roots[i], ACCESS_WRITE);
                add_protected(&s, host);
                break;
        }
        *ret = entries_profile(&s, 0, policy->has_network);
}

/* --- profile to policy -------------------------------------------------------------------------------------------- */

/* The grants of a profile, by the members of a policy that can express them. */
struct grants {
        bool has_workspace, has_tmpdir, has_slash_tmp;
        bool has_other; /* write access to everything, or below a workspace root that is not known */
        struct entries *roots;
};

/* Returns the subpath below the cwd as a path; p == NULL when the subpath leaves the cwd or the cwd is not known. */
static struct slice below_cwd(struct arena *a, struct slice cwd, struct slice subpath)
{
        struct slice path;

        if (!cwd.p || slice_has_nul(subpath) || slice_starts(subpath, S("/")))
                return (struct slice){ 0 };
        const char *joined = arena_printf(a, "%.*s/%.*s", SLICE(cwd), SLICE(subpath));
        if (uri_to_path(a, slice_from_str(joined), &path, NULL) != URI_OK || !path_is_within(path, cwd))
                return (struct slice){ 0 };
        return path;
}

static void note_write(struct arena *a, struct grants *g, const struct profile_entry *e, struct slice cwd)
{
        if (e->kind == TARGET_GLOB)
                return; /* grants nothing */
        if (e->kind == TARGET_PATH && cwd.p && slice_eq(e->text, cwd)) {
                g->has_workspace = true;
                return;
        }
        if (e->kind == TARGET_PATH) {
                add_path(g->roots, e->text, ACCESS_WRITE);
                return;
        }
        switch (e->special) {
        case SPECIAL_PROJECT_ROOTS:
                if (entry_is_workspace(e)) {
                        g->has_workspace = true;
                        return;
                }
                g->has_other = true;
                struct slice path = below_cwd(a, cwd, e->subpath);
                if (path.p)
                        add_path(g->roots, path, ACCESS_WRITE);
                return;
        case SPECIAL_TMPDIR:
                g->has_tmpdir = true;
                return;
        case SPECIAL_SLASH_TMP:
                g->has_slash_tmp = true;
                return;
        case SPECIAL_ROOT:
                g->has_other = true;
                return;
        case SPECIAL_MINIMAL:
        case SPECIAL_UNKNOWN:
                return;
        }
}

static void find_grants(struct arena *a, const struct profile *p, struct slice cwd, struct grants *g)
{
        _entries_ struct entries all;

        entries_init(&all, a);
        for (size_t i = 0; i < p->count; i++)
                entries_append(&all, &p->entries[i]);

        for (size_t i = 0; i < p->count; i++) {
                const struct profile_entry *e = &p->entries[i];
                bool is_denied = entries_accesses(&all, e) & (1U << ACCESS_DENY);
                if (e->access == ACCESS_WRITE && !is_denied)
                        note_write(a, g, e, cwd);
        }
}

static bool is_protection(const struct profile_entry *e)
{
        if (e->access != ACCESS_READ || !e->skips_missing)
                return false;
        return path_is_protected(e->kind == TARGET_SPECIAL ? e->subpath : e->text);
}

/* Finds the read access of the legacy policy that converts to the entries of `p`: restricted to some roots if these entries allow
 * no other reading, otherwise full. Restricted read access always includes the workspace. */
static struct read_access find_reads(struct arena *a, const struct profile *p, bool has_workspace)
{
        static const struct read_access everything = { 0 };
        struct read_access read = {
                .is_restricted = true,
                .roots = arena_alloc(a, (p->count + 1) * sizeof(struct slice)),
        };

        for (size_t i = 0; i < p->count; i++) {
                const struct profile_entry *e = &p->entries[i];
                has_workspace |= entry_is_workspace(e);
                if (e->access == ACCESS_WRITE && !(e->kind == TARGET_SPECIAL && e->special == SPECIAL_ROOT))
                        continue;
                if (is_protection(e) || (e->access == ACCESS_READ && entry_is_workspace(e)))
                        continue;
                if (e->access == ACCESS_READ && e->kind == TARGET_SPECIAL && e->special == SPECIAL_MINIMAL)
                        read.has_platform = true;
                else if (e->access == ACCESS_READ && e->kind == TARGET_PATH)
                        read.roots[read.root_count++] = e->text;
                else
                        return everything;
        }
        return has_workspace ? read : everything;
}

/* Does `s` hold every entry of the profile, apart from those that every policy adds? */
static bool has_all(struct entries *s, const struct profile *p)
{
        for (size_t i = 0; i < p->count; i++) {
                if (!is_protection(&p->entries[i]) && !entries_have(s, &p->entries[i]))
                        return false;
        }
        return true;
}

static bool is_exact(struct arena *a, const struct sandbox_policy *policy, const struct profile *p)
{
        _entries_ struct entries mine, theirs;
        struct profile back;

        sandbox_policy_to_profile(a, policy, NULL, &back);
        entries_init(&mine, a);
        entries_init(&theirs, a);
        for (size_t i = 0; i < p->count; i++)
                entries_append(&mine, &p->entries[i]);
        for (size_t i = 0; i < back.count; i++)
                entries_append(&theirs, &back.entries[i]);
        return has_all(&mine, &back) && has_all(&theirs, p);
}

/* Returns the policy for files without limits. With a closed network the nearest policy is an external sandbox. */
static struct sandbox_policy unlimited_policy(bool has_network)
{
        return (struct sandbox_policy){
                .kind = has_network ? SANDBOX_POLICY_FULL_ACCESS : SANDBOX_POLICY_EXTERNAL,
                .has_network = has_network,
        };
}

static int project(struct arena *a, const struct profile *p, struct slice cwd, struct sandbox_policy *ret,
                   bool *ret_is_exact, struct err *err)
{
        struct sandbox_policy policy = { .kind = SANDBOX_POLICY_READ_ONLY, .has_network = p->has_network };
        _entries_ struct entries roots;
        struct grants g = { .roots = &roots };

        entries_init(&roots, a);
        find_grants(a, p, cwd, &g);
        bool has_other = g.has_other || g.has_tmpdir || g.has_slash_tmp || roots.count;
        if (!g.has_workspace && has_other)
                return err_set(err, 0, -EINVAL, "%s", outside_text);

        policy.read = find_reads(a, p, g.has_workspace);
        if (g.has_workspace) {
                policy.kind = SANDBOX_POLICY_WORKSPACE_WRITE;
                policy.excludes_tmpdir = !g.has_tmpdir;
                policy.excludes_slash_tmp = !g.has_slash_tmp;
                policy.writable_roots = arena_alloc(a, (roots.count + 1) * sizeof(struct slice));
                policy.writable_root_count = roots.count;
                for (size_t i = 0; i < roots.count; i++)
                        policy.writable_roots[i] = roots.list[i].text;
        }
        *ret_is_exact = is_exact(a, &policy, p);
        *ret = policy;
        return 0;
}

int sandbox_policy_from_profile(struct arena *a, const struct profile *p, struct slice cwd,
                                struct sandbox_policy *ret, bool *ret_is_exact, struct err *err)
{
        bool ignored;

        if (!ret_is_exact)
                ret_is_exact = &ignored;
        if (p->kind != PROFILE_MANAGED) {
                *ret = unlimited_policy(p->kind == PROFILE_DISABLED);
                if (p->kind == PROFILE_EXTERNAL)
                        ret->has_network = p->has_network;
                *ret_is_exact = true;
                return 0;
        }
        if (p->is_unrestricted || profile_writes_all(p)) {
                *ret = unlimited_policy(p->has_network);
                *ret_is_exact = false;
                return 0;
        }

        return project(a, p, cwd, ret, ret_is_exact, err);
}

/* --- keeping denials ---------------------------------------------------------------------------------------------- */

void profile_replace(struct arena *a, const struct profile *next, const struct profile *old,
                     struct profile *ret)
{
        _entries_ struct entries s, denied;

        entries_init(&s, a);
        entries_init(&denied, a);
        for (size_t i = 0; i < old->count; i++) {
                if (old->entries[i].access == ACCESS_DENY)
                        entries_append(&denied, &old->entries[i]);
        }
        *ret = *next;
        if (next->kind == PROFILE_EXTERNAL || denied.count == 0)
                return;

        if (next->kind == PROFILE_DISABLED || next->is_unrestricted)
                add_special(&s, SPECIAL_ROOT, ACCESS_WRITE);
        for (size_t i = 0; i < next->count; i++)
                entries_append(&s, &next->entries[i]);
        uint64_t depth = entries_unite_depths(s.list, s.count, next->glob_depth, denied.list, denied.count,
                                              old->glob_depth);
        for (size_t i = 0; i < denied.count; i++)
                entries_add(&s, &denied.list[i]);
        *ret = entries_profile(&s, depth, next->has_network);
}

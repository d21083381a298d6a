/* plan_protect: adds the protected names of every writable root, and the paths that a protected `.git` points at. */
#include "plan/plan_internal.h"

#include <errno.h>

ACCESS_COMPARED(3);

/* Is this path inside of a protected name of a writable root? A root in such a place was opened on purpose, and no more names
 * are protected in it. A workspace in a `.codex` that is in no writable root is like any other. */
static bool is_inside_protected(const struct planner *m, struct slice path)
{
        for (struct slice above; path.n > 1; path = above) {
                above = path_parent(path);
                const struct plan_node *root = node_at(m, above);
                if (root && root->access == ACCESS_WRITE && path_is_protected(path))
                        return true;
        }
        return false;
}

static int protect_seen(struct planner *m, struct slice path, const struct seen *seen, const char *why)
{
        struct plan_node n = { .path = seen->path,
                               .named = path,
                               .access = ACCESS_READ,
                               .why = why,
                               .is_protected = true,
                               .seen = *seen };
        /* An entry of the profile is never narrowed. But where the path leads through links to that entry, the links are
         * checked: a command could replace them. */
        if (node_at(m, n.path) && !node_at(m, n.path)->is_pin)
                return plan_check_links(m, &n);
        /* A path that cannot be written needs no protection. */
        if (access_at(m, n.seen.base) != ACCESS_WRITE && n.seen.link_count == 0)
                return 0;
        return node_add(m, &n);
}

static int protect(struct planner *m, struct slice path, const char *why)
{
        struct seen seen;
        int r = look_at(m->arena, path, &seen);
        return r < 0 ? plan_cannot_look(m, path, r) : protect_seen(m, path, &seen, why);
}

static int cannot_follow(struct planner *m, struct slice file, struct slice path, int r)
{
        m->err->os_errno = -r;
        return plan_refuse(m, "repair this file, or remove it", "cannot tell what %.*s points at: %.*s%s%s",
                           SLICE(file), SLICE(path), path.n > 0 ? ": " : "", errno_text(-r));
}

/* Protects what a pointer in `file` names, relative to `at`. As in git, `at` is the real directory of the file, and `..` is
 * the real parent directory. Returns 1 with the path in *ret, 0 when the pointer names nothing, or -errno. */
static int protect_pointer(struct planner *m, struct slice file, struct slice prefix, struct slice at,
                           const char *why, struct slice *ret)
{
        struct slice text;
        struct seen seen;
        int r = look_pointer(m->arena, file, prefix, &text);
        if (r <= 0)
                return r < 0 ? cannot_follow(m, file, S(""), r) : 0;
        struct slice path = text.p[0] == '/' ? text : path_join(m->arena, at, text);
        r = look_at(m->arena, path, &seen);
        /* -ENOENT is refused too. It means a `..` after a missing directory; once that is made, the path leads somewhere. */
        if (r < 0)
                return cannot_follow(m, file, path, r);
        r = protect_seen(m, path, &seen, why);
        *ret = seen.path;
        return r < 0 ? r : 1;
}

/* `.git` may be a file that names the repository, and a repository may hold a file that names a common repository. */
static int protect_pointers(struct planner *m, struct slice git)
{
        struct slice at = git, ignored;
        int r = protect_pointer(m, git, S("gitdir:"), path_parent(git), PLAN_WHY_POINTED, &at);
        if (r < 0)
                return r;
        r = protect_pointer(m, path_join(m->arena, at, S("commondir")), S(""), at, PLAN_WHY_COMMON, &ignored);
        return MIN(r, 0);
}

static int protect_root(struct planner *m, struct slice root)
{
        for (size_t i = 0; rules_protected_names[i]; i++) {
                struct slice path = path_join(m->arena, root, slice_from_str(rules_protected_names[i]));
                int r = protect(m, path, PLAN_WHY_PROTECTED);
                if (r == 0 && i == 0)
                        r = protect_pointers(m, path);
                if (r < 0)
                        return r;
        }
        return 0;
}

int plan_collect_protected(struct planner *m)
{
        for (size_t i = 0; i < m->sorted.count; i++) {
                const struct plan_node *n = &m->sorted.list[i];
                if (n->access != ACCESS_WRITE || !n->seen.is_directory || is_inside_protected(m, n->path))
                        continue;
                int r = protect_root(m, n->path);
                if (r < 0)
                        return r;
        }
        nodes_join(m);
        return 0;
}

/* plan_alias: extends rules to the other paths by which the same files can be reached.
 *
 * A file system that is mounted twice can be reached by two paths, and a rule names only one. So each path that the profile
 * denies, keeps read-only or protects gets the same rule at every other place where it is mounted. File systems of the
 * kernel hold settings instead of files: they are never writable, wherever they are mounted, and the processes of the
 * machine are not shown.
 */
#include "plan/mount_table.h"
#include "plan/plan_internal.h"

#include <errno.h>

ACCESS_COMPARED(3);

/* Returns the part of the path below `above`, with a leading slash; empty for `above` itself. */
static struct slice rest_of(struct slice path, struct slice above)
{
        size_t n = above.n == 1 ? 0 : above.n;
        return slice_from(path.p + n, path.n - n);
}

/* Joins `above` and a result of rest_of. */
static struct slice attach(struct arena *a, struct slice above, struct slice rest)
{
        if (rest.n == 0 || (rest.n == 1 && above.n > 1))
                return above;
        const char *p = arena_printf(a, "%.*s%.*s", above.n == 1 ? 0 : (int)above.n, above.p, SLICE(rest));
        return slice_from_str(p);
}

/* ---- file systems of the kernel ---- */

static bool is_private(struct slice point)
{
        return path_is_within(point, S("/proc")) || path_is_within(point, S("/dev")) ||
               path_is_within(point, S("/sys"));
}

static bool is_named(const struct planner *m, struct slice path)
{
        const struct plan_node *n = node_at(m, path);
        return n && !n->is_pin;
}

static int add_kernel_mount(struct planner *m, const struct mount_entry *e)
{
        bool shows_processes = e->kind == MOUNT_PROCESSES;
        enum access now = access_at(m, e->point);
        if (is_private(e->point) || (shows_processes ? now == ACCESS_DENY : now != ACCESS_WRITE) ||
            (!shows_processes && is_named(m, e->point)))
                return 0;
        struct plan_node n = { .path = e->point,
                               .named = e->point,
                               .access = shows_processes ? ACCESS_DENY : ACCESS_READ,
                               .why = shows_processes ? "processes of the machine"
                                                      : "settings of the machine" };
        int r = look_at(m->arena, e->point, &n.seen);
        if (r < 0)
                return r == -EACCES && !n.seen.is_own ? 0 : plan_cannot_look(m, e->point, r);
        /* Another mount lies on this mount, or it is gone. */
        if (!n.seen.exists || n.seen.mount != e->id)
                return 0;
        return node_add(m, &n);
}

static int collect_kernel_mounts(struct planner *m)
{
        int r = 0;
        for (size_t i = 0; r == 0 && i < m->mounts->count; i++)
                if (m->mounts->list[i].kind != MOUNT_FILES)
                        r = add_kernel_mount(m, &m->mounts->list[i]);
        nodes_join(m);
        return r;
}

/* ---- file systems that are mounted twice ---- */

/* Does this node restrict access? A readable path counts only when an entry of the profile names it or when it is protected. */
static bool narrows(const struct plan_node *n)
{
        if (n->is_pin || n->is_private || n->path.n == 1)
                return false;
        return n->access == ACCESS_DENY || (n->access == ACCESS_READ && (n->is_named || n->is_protected));
}

/* Adds a node with the access of `n` at another path. */
static int add_alias(struct planner *m, const struct plan_node *n, const struct mount_entry *e,
                     struct slice path)
{
        enum access now = access_at(m, path);
        struct plan_node alias = *n;
        if (now == ACCESS_DENY || (n->access == ACCESS_READ && now != ACCESS_WRITE))
                return 0;
        int r = look_at(m->arena, path, &alias.seen);
        if (r < 0)
                return plan_cannot_look(m, path, r);
        /* Another mount covers this path, so the alias cannot be reached. */
        if (alias.seen.mount != e->id || !slice_eq(alias.seen.path, path))
                return 0;
        alias.path = alias.named = alias.seen.path;
        alias.named_why = n->named_why ? n->named_why : n->why;
        alias.why = "mounted elsewhere, too";
        return node_add(m, &alias);
}

static int add_aliases(struct planner *m, const struct plan_node *n, const struct mount_entry *own)
{
        /* The path of the node inside of its file system. A missing path is in the file system of its existing part. */
        struct slice at = attach(m->arena, own->root, rest_of(n->path, own->point));
        int r = 0;
        for (size_t i = 0; r == 0 && i < m->mounts->count; i++) {
                const struct mount_entry *e = &m->mounts->list[i];
                if (e == own || e->dev != own->dev)
                        continue;
                if (path_is_within(at, e->root))
                        r = add_alias(m, n, e, attach(m->arena, e->point, rest_of(at, e->root)));
                /* The mount shows only a part of the restricted directory; an entry of the profile for that very path wins. */
                else if (path_is_within(e->root, at) && !is_named(m, e->point))
                        r = add_alias(m, n, e, e->point);
        }
        return r;
}

static int collect_twins(struct planner *m)
{
        int r = 0;
        for (size_t i = 0; r == 0 && i < m->sorted.count; i++) {
                const struct plan_node *n = &m->sorted.list[i];
                const struct mount_entry *own =
                        narrows(n) ? mount_table_find(m->mounts, n->seen.mount) : NULL;
                if (own && own->has_twin)
                        r = add_aliases(m, n, own);
        }
        nodes_join(m);
        return r;
}

int plan_collect_aliases(struct planner *m)
{
        if (!m->mounts)
                return 0;
        int r = collect_kernel_mounts(m);
        return r < 0 ? r : collect_twins(m);
}

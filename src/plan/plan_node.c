/* plan_node: keeps the nodes of a planner sorted by path and finds them, checks the links on the way to a node, and words
 * refusals of plans. */
#include "plan/plan_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

ACCESS_COMPARED(3);

#define NODES_MAX PLAN_OPS_MAX

int plan_refuse(struct planner *m, const char *remedy, const char *fmt, ...)
{
        char text[2048];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        m->err->step = "plan";
        m->err->remedy = remedy;
        return err_set(m->err, 0, -EINVAL, "%s", text);
}

/* ---- nodes ---- */

static int node_order(const void *a, const void *b)
{
        const struct plan_node *x = a, *y = b;
        return path_compare(x->path, y->path);
}

static int node_key_order(const void *key, const void *node)
{
        const struct slice *path = key;
        const struct plan_node *n = node;
        return path_compare(*path, n->path);
}

struct plan_node *node_at(const struct planner *m, struct slice path)
{
        const struct plan_nodes *all = &m->sorted;
        return all->count ? bsearch(&path, all->list, all->count, sizeof(*all->list), node_key_order) : NULL;
}

struct plan_node *node_above(const struct planner *m, struct slice path)
{
        for (;; path = path_parent(path)) {
                struct plan_node *n = node_at(m, path);
                if (n || path.n == 1)
                        return n;
        }
}

enum access access_at(const struct planner *m, struct slice path)
{
        const struct plan_node *n = node_above(m, path);
        return n ? n->access : ACCESS_DENY;
}

static void nodes_append(struct arena *a, struct plan_nodes *to, const struct plan_node *node)
{
        to->list = arena_room(a, to->list, to->count, &to->room, sizeof(*node));
        to->list[to->count++] = *node;
}

int node_add(struct planner *m, const struct plan_node *node)
{
        if (m->sorted.count + m->fresh.count >= NODES_MAX)
                return plan_refuse(m, "use fewer entries, or patterns that match less",
                                   "the profile needs more than %d mounts", NODES_MAX);
        nodes_append(m->arena, &m->fresh, node);
        return 0;
}

/* Merges the fresh nodes into the sorted ones. Of two nodes with the same path the one with the stronger access stays; a pin
 * gives way to any other node. */
void nodes_join(struct planner *m)
{
        struct plan_nodes *all = &m->sorted;
        for (size_t i = 0; i < m->fresh.count; i++)
                nodes_append(m->arena, all, &m->fresh.list[i]);
        m->fresh.count = 0;
        if (all->count == 0)
                return;
        qsort(all->list, all->count, sizeof(*all->list), node_order);
        size_t kept = 1;
        for (size_t i = 1; i < all->count; i++) {
                struct plan_node *last = &all->list[kept - 1], *next = &all->list[i];
                if (!slice_eq(last->path, next->path))
                        all->list[kept++] = *next;
                else if (last->is_pin ||
                         (!next->is_pin && access_strength(next->access) > access_strength(last->access)))
                        *last = *next;
        }
        all->count = kept;
}

void nodes_drop(struct planner *m, bool (*is_idle)(const struct planner *, const struct plan_node *))
{
        struct plan_nodes kept = { 0 };
        for (size_t i = 0; i < m->sorted.count; i++)
                if (!is_idle(m, &m->sorted.list[i]))
                        nodes_append(m->arena, &kept, &m->sorted.list[i]);
        m->sorted = kept;
}

/* A command that can replace the link could make the rule apply to another path. */
int plan_check_links(struct planner *m, const struct plan_node *n)
{
        if (n->access == ACCESS_WRITE || (n->is_match && m->in->is_for_files))
                return 0;
        for (size_t k = 0; k < n->seen.link_count; k++) {
                struct slice link = n->seen.links[k].at;
                if (access_at(m, path_parent(link)) != ACCESS_WRITE)
                        continue;
                return plan_refuse(
                        m, "replace the link by what it points at, or name that in the profile",
                        "cannot enforce sandbox %s path %.*s because it crosses writable symlink %.*s",
                        n->access == ACCESS_DENY ? "deny-read" : "read-only", SLICE(n->named), SLICE(link));
        }
        return 0;
}

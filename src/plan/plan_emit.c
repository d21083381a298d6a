/* plan_emit: turns the sorted paths of a planner into operations, parents first.
 *
 * A path needs an operation when its access differs from that of the directory around it. An empty root, a mask and the
 * private /dev hold nothing to mount on, so directories and files are made there first.
 */
#include "base/buf.h"
#include "plan/plan_internal.h"

#include <errno.h>

ACCESS_COMPARED(3);

static int op_add(struct planner *m, const struct plan_op *op)
{
        struct plan *p = m->plan;
        if (p->op_count == PLAN_OPS_MAX) {
                m->err->step = "plan";
                return err_set(m->err, 0, -E2BIG, "the profile needs more than %d operations", PLAN_OPS_MAX);
        }
        p->ops = arena_room(m->arena, p->ops, p->op_count, &m->op_room, sizeof(*op));
        p->ops[p->op_count++] = *op;
        return 0;
}

/* ---- places: directories, files and links to mount on ---- */

/* Records a path as made. Returns whether it was recorded before. */
static bool note_made(struct planner *m, struct slice path)
{
        /* The newest paths are compared first, because neighbours are added one after another. */
        for (size_t i = m->made_count; i-- > 0;)
                if (slice_eq(m->made[i], path))
                        return true;
        m->made = arena_room(m->arena, m->made, m->made_count, &m->made_room, sizeof(path));
        m->made[m->made_count++] = path;
        return false;
}

/* Adds directories from the top of the hidden area down to `path`, and `path` itself as `kind`. */
static int add_place(struct planner *m, struct slice top, struct slice path, enum plan_kind kind,
                     struct slice text)
{
        for (size_t n = top.n == 1 ? 1 : top.n + 1; n < path.n; n++) {
                if (path.p[n] != '/')
                        continue;
                struct slice above = slice_from(path.p, n);
                int r = note_made(m, above) ? 0
                                            : op_add(m, &(struct plan_op){ .kind = PLAN_DIRECTORY,
                                                                           .is_directory = true,
                                                                           .path = above,
                                                                           .why = PLAN_WHY_WAY });
                if (r < 0)
                        return r;
        }
        if (note_made(m, path))
                return 0;
        return op_add(m, &(struct plan_op){ .kind = kind,
                                            .is_directory = kind == PLAN_DIRECTORY,
                                            .path = path,
                                            .text = text,
                                            .why = PLAN_WHY_WAY });
}

/* Returns the top of the hidden area that a path is in; p == NULL when it is in none. */
static struct slice hidden_top(const struct planner *m, struct slice path)
{
        const struct plan_node *n = node_above(m, path_parent(path));
        if (!n)
                return S("/");
        return n->access == ACCESS_DENY ? n->path : slice_from(NULL, 0);
}

/* Adds the links on the way to an open path that is inside of a hidden area, where they would be missing. */
static int add_links(struct planner *m, const struct plan_node *n)
{
        for (size_t i = 0; i < n->seen.link_count; i++) {
                const struct seen_link *link = &n->seen.links[i];
                struct slice top = hidden_top(m, link->at);
                if (!top.p || path_is_within(link->at, S("/proc")))
                        continue;
                int r = add_place(m, top, link->at, PLAN_LINK, link->text);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- operations ---- */

static int add_bind(struct planner *m, const struct plan_node *n, enum plan_kind kind)
{
        int r = 0;
        struct slice top = n->path.n > 1 ? hidden_top(m, n->path) : slice_from(NULL, 0);
        if (top.p)
                r = add_place(m, top, n->path, n->seen.is_directory ? PLAN_DIRECTORY : PLAN_FILE, S(""));
        if (r < 0)
                return r;
        bool is_in_writable =
                !plan_kind_is_writable(kind) && access_at(m, path_parent(n->path)) == ACCESS_WRITE;
        return op_add(m, &(struct plan_op){ .kind = kind,
                                            .is_directory = n->seen.is_directory,
                                            .is_guarded = is_in_writable ||
                                                          (kind == PLAN_PIN && !n->seen.is_directory),
                                            .path = n->path,
                                            .dev = n->seen.dev,
                                            .ino = n->seen.ino,
                                            .born = n->seen.born,
                                            .why = n->why,
                                            .named_why = n->named_why });
}

/* Is something below a hidden path readable or writable? Then the mask must let commands pass through. */
static bool has_openings(const struct planner *m, const struct plan_node *hidden)
{
        const struct plan_nodes *all = &m->sorted;
        for (const struct plan_node *n = hidden + 1; n < all->list + all->count; n++) {
                if (!path_is_within(n->path, hidden->path))
                        return false;
                if (n->access != ACCESS_DENY && n->seen.exists)
                        return true;
        }
        return false;
}

static int add_hidden(struct planner *m, const struct plan_node *n)
{
        /* The sandbox has its own /proc and /dev, so the identity of the files that were seen there does not apply. */
        bool is_ours = path_is_within(n->path, S("/proc")) || path_is_within(n->path, S("/dev"));
        return op_add(m, &(struct plan_op){ .kind = has_openings(m, n) ? PLAN_OPEN : PLAN_HIDE,
                                            .is_directory = n->seen.is_directory,
                                            .may_be_missing = is_ours,
                                            .is_guarded = !is_ours && !n->is_closed,
                                            .path = n->path,
                                            .dev = is_ours ? 0 : n->seen.dev,
                                            .ino = is_ours ? 0 : n->seen.ino,
                                            .born = is_ours ? 0 : n->seen.born,
                                            .why = n->why,
                                            .named_why = n->named_why });
}

/* Adds a mask on a path that does not exist and must not be created. A protected name becomes an empty directory, any other
 * path an empty file. */
static int add_placeholder(struct planner *m, const struct plan_node *n)
{
        struct plan *p = m->plan;
        struct slice path = seen_first_missing(&n->seen);
        bool is_directory = path.n == n->path.n && (n->is_protected || path_is_protected(path));
        if (note_made(m, path))
                return 0;
        if (p->placeholder_count == PLAN_PLACEHOLDERS_MAX) {
                m->err->step = "plan";
                return err_set(m->err, 0, -E2BIG, "the profile forbids the creation of more than %d paths",
                               PLAN_PLACEHOLDERS_MAX);
        }
        if (!p->placeholders)
                p->placeholders = arena_zalloc(m->arena, PLAN_PLACEHOLDERS_MAX * sizeof(*p->placeholders));
        p->placeholders[p->placeholder_count++] = (struct plan_placeholder){ .path = path,
                                                                             .is_directory = is_directory,
                                                                             .op = p->op_count,
                                                                             .dev = n->seen.dev,
                                                                             .ino = n->seen.ino };
        return op_add(m, &(struct plan_op){ .kind = n->access == ACCESS_DENY ? PLAN_HIDE : PLAN_PREVENT,
                                            .is_directory = is_directory,
                                            .is_guarded = true,
                                            .path = path,
                                            .why = n->why,
                                            .named_why = n->named_why });
}

static int emit_node(struct planner *m, const struct plan_node *n)
{
        if (n->is_private || n->path.n == 1)
                return 0;
        if (!n->seen.exists) {
                /* Nothing can be created below a file, and the file is pinned. */
                bool must_stay_away = n->seen.is_directory && n->access != ACCESS_WRITE &&
                                      access_at(m, n->seen.base) == ACCESS_WRITE;
                return must_stay_away ? add_placeholder(m, n) : 0;
        }
        if (n->is_pin)
                return add_bind(m, n, PLAN_PIN);

        const struct plan_node *outer = node_above(m, path_parent(n->path));
        enum access around = outer ? outer->access : ACCESS_DENY;
        if (n->access == ACCESS_DENY)
                return around != ACCESS_DENY || (outer && outer->is_private) ? add_hidden(m, n) : 0;
        int r = add_links(m, n);
        /* A writable root lies in another one. The pin keeps the protected names of the inner root in place. */
        if (r == 0 && n->access == ACCESS_WRITE && around == ACCESS_WRITE)
                return add_bind(m, n, PLAN_PIN);
        if (r < 0 || n->access == around)
                return r;
        return add_bind(m, n, n->access == ACCESS_WRITE ? PLAN_WRITE : PLAN_READ);
}

static int add_seals(struct planner *m)
{
        size_t count = m->plan->op_count;
        for (size_t i = 0; i < count; i++) {
                const struct plan_op *op = &m->plan->ops[i];
                if (plan_kind_row(op->kind)->act != PLAN_ACT_PASS)
                        continue;
                int r = op_add(m,
                               &(struct plan_op){ .kind = PLAN_SEAL, .path = op->path, .why = "complete" });
                if (r < 0)
                        return r;
        }
        return 0;
}

int plan_emit(struct planner *m)
{
        const struct plan_node *root = node_at(m, S("/"));
        enum access whole = root ? root->access : ACCESS_DENY;
        m->plan->root = whole == ACCESS_WRITE  ? PLAN_ROOT_WRITE
                        : whole == ACCESS_READ ? PLAN_ROOT_READ
                                               : PLAN_ROOT_EMPTY;
        for (size_t i = 0; i < m->sorted.count; i++) {
                int r = emit_node(m, &m->sorted.list[i]);
                if (r < 0)
                        return r;
        }
        return add_seals(m);
}

int plan_explain(const struct plan *p, struct buf *out)
{
        static const char *const roots[] = { "nothing", "the machine, read-only", "the machine, writable" };
        int r = buf_printf(out, "%-10s %s\n", "network",
                           p->has_network ? "the machine's" : "its own, loopback only");
        if (r == 0)
                r = buf_printf(out, "%-10s %s\n", "start with", p->has_view ? roots[p->root] : roots[2]);
        for (size_t i = 0; r == 0 && i < p->placeholder_count; i++)
                r = buf_printf(out, "%-10s %.*s (while the command runs)\n", "make",
                               SLICE(p->placeholders[i].path));
        for (size_t i = 0; r == 0 && i < p->op_count; i++) {
                const struct plan_op *op = &p->ops[i];
                r = buf_printf(out, "%-10s %.*s%s (%s)\n", plan_kind_row(op->kind)->verb, SLICE(op->path),
                               op->is_directory ? "/" : "", op->why);
        }
        return r;
}

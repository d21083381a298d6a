/* plan_emit: sorted paths become operations, from the top down. See plan.h.
 *
 * A path needs an operation when what holds at it differs from what holds around it. In an empty root, in a mask and in
 * the private /dev there is nothing to mount on, so places are made first.
 */
#include "base/buf.h"
#include "sandbox/plan_internal.h"

#include <errno.h>

static int op_add(struct maker *m, const struct plan_op *op)
{
        struct plan *p = m->plan;
        if (p->op_count == PLAN_OPS_MAX) {
                m->err->step = "plan";
                return err_set(m->err, 0, -E2BIG, "the profile needs more than %d operations", PLAN_OPS_MAX);
        }
        if (p->op_count == m->op_room) {
                size_t room = m->op_room ? m->op_room * 2 : 32;
                p->ops = arena_grow(m->arena, p->ops, m->op_room * sizeof(*op), room * sizeof(*op));
                m->op_room = room;
        }
        p->ops[p->op_count++] = *op;
        return 0;
}

/* ---- places ---- */

static bool is_made(struct maker *m, struct slice path)
{
        /* From the youngest: neighbours come one after another. */
        for (size_t i = m->made_count; i-- > 0;)
                if (slice_eq(m->made[i], path))
                        return true;
        if (m->made_count == m->made_room) {
                size_t room = m->made_room ? m->made_room * 2 : 32;
                m->made = arena_grow(m->arena, m->made, m->made_room * sizeof(path), room * sizeof(path));
                m->made_room = room;
        }
        m->made[m->made_count++] = path;
        return false;
}

/* Directories from the hidden area's top down to `path`, which becomes what `kind` says. */
static int place(struct maker *m, struct slice top, struct slice path, enum plan_kind kind, struct slice text)
{
        for (size_t n = top.n == 1 ? 1 : top.n + 1; n < path.n; n++) {
                if (path.p[n] != '/')
                        continue;
                struct slice above = slice_from(path.p, n);
                int r = is_made(m, above) ? 0
                                          : op_add(m, &(struct plan_op){ .kind = PLAN_DIRECTORY,
                                                                         .is_directory = true,
                                                                         .path = above,
                                                                         .why = "leads to what is open" });
                if (r < 0)
                        return r;
        }
        if (is_made(m, path))
                return 0;
        return op_add(m, &(struct plan_op){ .kind = kind,
                                            .is_directory = kind == PLAN_DIRECTORY,
                                            .path = path,
                                            .text = text,
                                            .why = "leads to what is open" });
}

/* The top of the hidden area that a path lies in; p == NULL when it is in none. */
static struct slice hidden_top(const struct maker *m, struct slice path)
{
        const struct node *n = node_above(m, path_parent(path));
        if (!n)
                return S("/");
        return n->access == ACCESS_DENY ? n->path : slice_from(NULL, 0);
}

/* A link on the way to something open, in an area where it would be missing. */
static int place_links(struct maker *m, const struct node *n)
{
        for (size_t i = 0; i < n->seen.link_count; i++) {
                const struct seen_link *link = &n->seen.links[i];
                struct slice top = hidden_top(m, link->at);
                if (!top.p || path_is_within(link->at, S("/proc")))
                        continue;
                int r = place(m, top, link->at, PLAN_LINK, link->text);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- operations ---- */

static int bind(struct maker *m, const struct node *n, enum plan_kind kind)
{
        int r = 0;
        struct slice top = n->path.n > 1 ? hidden_top(m, n->path) : slice_from(NULL, 0);
        if (top.p)
                r = place(m, top, n->path, n->seen.is_directory ? PLAN_DIRECTORY : PLAN_FILE, S(""));
        if (r < 0)
                return r;
        bool is_carve_out = kind == PLAN_READ && access_at(m, path_parent(n->path)) == ACCESS_WRITE;
        return op_add(m, &(struct plan_op){ .kind = kind,
                                            .is_directory = n->seen.is_directory,
                                            .is_guarded = is_carve_out ||
                                                          (kind == PLAN_PIN && !n->seen.is_directory),
                                            .path = n->path,
                                            .dev = n->seen.dev,
                                            .ino = n->seen.ino,
                                            .why = n->why });
}

/* Is something below it open? Only then is it more than a lid. */
static bool has_openings(const struct maker *m, const struct node *hidden)
{
        const struct nodes *all = &m->sorted;
        for (const struct node *n = hidden + 1; n < all->list + all->count; n++) {
                if (!path_is_within(n->path, hidden->path))
                        return false;
                if (n->access != ACCESS_DENY && n->seen.exists)
                        return true;
        }
        return false;
}

static int hide(struct maker *m, const struct node *n)
{
        /* What /proc and the private /dev will hold is not what we looked at. */
        bool is_ours = path_is_within(n->path, S("/proc")) || path_is_within(n->path, S("/dev"));
        return op_add(m, &(struct plan_op){ .kind = has_openings(m, n) ? PLAN_OPEN : PLAN_HIDE,
                                            .is_directory = n->seen.is_directory,
                                            .may_miss = is_ours,
                                            .is_guarded = !is_ours,
                                            .path = n->path,
                                            .dev = is_ours ? 0 : n->seen.dev,
                                            .ino = is_ours ? 0 : n->seen.ino,
                                            .why = n->why });
}

/* It does not exist, and must not come into being. A protected name looks like an empty directory, all else like an
 * empty file. */
static int stub(struct maker *m, const struct node *n)
{
        struct plan *p = m->plan;
        struct slice path = seen_first_missing(&n->seen);
        struct slice above = path_parent(path);
        struct slice name = slice_from(path.p + above.n + (above.n > 1), path.n - above.n - (above.n > 1));
        bool is_directory = path.n == n->path.n && (n->is_protected || is_protected_name(name));
        if (is_made(m, path))
                return 0;
        if (p->stub_count == PLAN_STUBS_MAX) {
                m->err->step = "plan";
                return err_set(m->err, 0, -E2BIG, "the profile forbids the creation of more than %d paths",
                               PLAN_STUBS_MAX);
        }
        if (!p->stubs)
                p->stubs = arena_zalloc(m->arena, PLAN_STUBS_MAX * sizeof(*p->stubs));
        p->stubs[p->stub_count++] = (struct plan_stub){ .path = path,
                                                        .is_directory = is_directory,
                                                        .op = p->op_count,
                                                        .dev = n->seen.dev,
                                                        .ino = n->seen.ino };
        return op_add(m, &(struct plan_op){ .kind = n->access == ACCESS_DENY ? PLAN_HIDE : PLAN_COVER,
                                            .is_directory = is_directory,
                                            .is_guarded = true,
                                            .path = path,
                                            .why = n->why });
}

static int emit_node(struct maker *m, const struct node *n)
{
        if (n->is_private || n->path.n == 1)
                return 0;
        if (!n->seen.exists) {
                /* Below a file nothing can be made, and the file is pinned. */
                bool must_stay_away = n->seen.is_directory && n->access != ACCESS_WRITE &&
                                      access_at(m, n->seen.base) == ACCESS_WRITE;
                return must_stay_away ? stub(m, n) : 0;
        }
        if (n->is_pin)
                return bind(m, n, PLAN_PIN);

        const struct node *outer = node_above(m, path_parent(n->path));
        enum access around = outer ? outer->access : ACCESS_DENY;
        if (n->access == ACCESS_DENY)
                return around != ACCESS_DENY || (outer && outer->is_private) ? hide(m, n) : 0;
        int r = place_links(m, n);
        if (r == 0 && n->access == ACCESS_WRITE && around == ACCESS_WRITE)
                return bind(m, n, PLAN_PIN); /* a root of its own: what protects its names stays with it */
        if (r < 0 || n->access == around)
                return r;
        return bind(m, n, n->access == ACCESS_WRITE ? PLAN_WRITE : PLAN_READ);
}

static int seal(struct maker *m)
{
        size_t count = m->plan->op_count;
        for (size_t i = 0; i < count; i++) {
                const struct plan_op *op = &m->plan->ops[i];
                if (op->kind != PLAN_OPEN)
                        continue;
                int r = op_add(m,
                               &(struct plan_op){ .kind = PLAN_SEAL, .path = op->path, .why = "complete" });
                if (r < 0)
                        return r;
        }
        return 0;
}

int plan_emit(struct maker *m)
{
        const struct node *root = node_at(m, S("/"));
        enum access whole = root ? root->access : ACCESS_DENY;
        m->plan->root = whole == ACCESS_WRITE  ? PLAN_ROOT_WRITE
                        : whole == ACCESS_READ ? PLAN_ROOT_READ
                                               : PLAN_ROOT_EMPTY;
        for (size_t i = 0; i < m->sorted.count; i++) {
                int r = emit_node(m, &m->sorted.list[i]);
                if (r < 0)
                        return r;
        }
        return seal(m);
}

int plan_explain(const struct plan *p, struct buf *out)
{
        static const char *const verbs[PLAN_KINDS] = {
                [PLAN_DIRECTORY] = "place", [PLAN_FILE] = "place",     [PLAN_LINK] = "link",
                [PLAN_READ] = "read-only",  [PLAN_WRITE] = "writable", [PLAN_PIN] = "pin",
                [PLAN_HIDE] = "hide",       [PLAN_OPEN] = "hide",      [PLAN_COVER] = "cover",
                [PLAN_SEAL] = "seal",
        };
        static const char *const roots[] = { "nothing", "the machine, read-only", "the machine, writable" };
        int r = buf_printf(out, "%-10s %s\n", "network",
                           p->has_network ? "the machine's" : "its own, loopback only");
        if (r == 0)
                r = buf_printf(out, "%-10s %s\n", "start with", p->has_view ? roots[p->root] : roots[2]);
        for (size_t i = 0; r == 0 && i < p->stub_count; i++)
                r = buf_printf(out, "%-10s %.*s (while the command runs)\n", "make", SLICE(p->stubs[i].path));
        for (size_t i = 0; r == 0 && i < p->op_count; i++) {
                const struct plan_op *op = &p->ops[i];
                r = buf_printf(out, "%-10s %.*s%s (%s)\n", verbs[op->kind], SLICE(op->path),
                               op->is_directory ? "/" : "", op->why);
        }
        return r;
}

/* plan: see plan.h. Here: which paths matter, and what holds at each. plan_emit.c makes operations of them.
 *
 * Beside the entries of the profile these are: what programs need to run, the protected names of every writable root with
 * what their pointers name, the matches of globs, and every directory between a writable root and something narrower
 * below it, which must not be renamed away (a pin).
 */
#include "sandbox/plan_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NODES_MAX PLAN_OPS_MAX

int path_compare(struct slice a, struct slice b)
{
        for (size_t i = 0; i < a.n && i < b.n; i++) {
                int x = a.p[i] == '/' ? 0 : (unsigned char)a.p[i];
                int y = b.p[i] == '/' ? 0 : (unsigned char)b.p[i];
                if (x != y)
                        return x < y ? -1 : 1;
        }
        return (a.n > b.n) - (a.n < b.n);
}

struct slice path_parent(struct slice path)
{
        size_t n = path.n;
        while (n > 0 && path.p[n - 1] != '/')
                n--;
        return n <= 1 ? S("/") : slice_from(path.p, n - 1);
}

struct slice path_join(struct arena *a, struct slice directory, struct slice name)
{
        if (directory.n == 1)
                return slice_from(arena_printf(a, "/%.*s", SLICE(name)), name.n + 1);
        return slice_from(arena_printf(a, "%.*s/%.*s", SLICE(directory), SLICE(name)),
                          directory.n + 1 + name.n);
}

static int refuse(struct maker *m, const char *remedy, const char *fmt, ...) PRINTF_LIKE(3, 4);
static int refuse(struct maker *m, const char *remedy, const char *fmt, ...)
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
        const struct node *x = a, *y = b;
        return path_compare(x->path, y->path);
}

static int node_key_order(const void *key, const void *node)
{
        const struct slice *path = key;
        const struct node *n = node;
        return path_compare(*path, n->path);
}

struct node *node_at(const struct maker *m, struct slice path)
{
        const struct nodes *all = &m->sorted;
        return all->count ? bsearch(&path, all->list, all->count, sizeof(*all->list), node_key_order) : NULL;
}

struct node *node_above(const struct maker *m, struct slice path)
{
        for (;; path = path_parent(path)) {
                struct node *n = node_at(m, path);
                if (n || path.n == 1)
                        return n;
        }
}

enum access access_at(const struct maker *m, struct slice path)
{
        const struct node *n = node_above(m, path);
        return n ? n->access : ACCESS_DENY;
}

/* Deny before write before read, where two names lead to one place. */
static bool is_stronger(enum access a, enum access b)
{
        static const int order[] = { [ACCESS_DENY] = 2, [ACCESS_WRITE] = 1, [ACCESS_READ] = 0 };
        return order[a] > order[b];
}

static void nodes_append(struct arena *a, struct nodes *to, const struct node *node)
{
        if (to->count == to->room) {
                size_t room = to->room ? to->room * 2 : 32;
                to->list = arena_grow(a, to->list, to->room * sizeof(*node), room * sizeof(*node));
                to->room = room;
        }
        to->list[to->count++] = *node;
}

static int node_add(struct maker *m, const struct node *node)
{
        if (m->sorted.count + m->fresh.count >= NODES_MAX)
                return refuse(m, "use fewer entries, or patterns that match less",
                              "the profile needs more than %d mounts", NODES_MAX);
        nodes_append(m->arena, &m->fresh, node);
        return 0;
}

/* The fresh ones join the others. */
static void nodes_join(struct maker *m)
{
        struct nodes *all = &m->sorted;
        for (size_t i = 0; i < m->fresh.count; i++)
                nodes_append(m->arena, all, &m->fresh.list[i]);
        m->fresh.count = 0;
        if (all->count == 0)
                return;
        qsort(all->list, all->count, sizeof(*all->list), node_order);
        size_t kept = 1;
        for (size_t i = 1; i < all->count; i++) {
                struct node *last = &all->list[kept - 1], *next = &all->list[i];
                if (!slice_eq(last->path, next->path))
                        all->list[kept++] = *next;
                else if (last->is_pin || (!next->is_pin && is_stronger(next->access, last->access)))
                        *last = *next;
        }
        all->count = kept;
}

/* ---- what the profile names ---- */

/* Made anew in every sandbox: their own entries on the machine do not matter. */
static bool is_ours(const struct node *n)
{
        bool is_proc = path_is_within(n->path, S("/proc"));
        return n->access != ACCESS_DENY && (is_proc || slice_eq(n->path, S("/dev")));
}

static int cannot_look(struct maker *m, struct slice path, int r)
{
        m->err->os_errno = -r;
        return refuse(m, "run the server as a user who may look at this path, or leave the entry out",
                      "cannot enforce sandbox path %.*s: %s", SLICE(path), errno_text(-r));
}

static int add_node(struct maker *m, struct node n)
{
        struct slice path = n.named;
        enum access access = n.access;
        int r = look_at(m->arena, path, &n.seen);
        if (r < 0) {
                /* What we cannot reach the command cannot either, unless it may change that. */
                bool is_carve_out =
                        path.n > 1 && rule_tree_access(&m->tree, path_parent(path)) == ACCESS_WRITE;
                if (access == ACCESS_WRITE || (access == ACCESS_READ && !is_carve_out))
                        return 0;
                return cannot_look(m, path, r);
        }
        n.path = n.seen.path;
        if (is_ours(&n) || (access == ACCESS_WRITE && !n.seen.exists))
                return 0;
        return node_add(m, &n);
}

static int add_named(struct maker *m, struct slice path, enum access access, const char *why)
{
        return add_node(m, (struct node){ .named = path, .access = access, .why = why });
}

/* Settings of the machine are nobody's files: where everything is writable they are not, unless the profile names one. */
static int protect_sys(struct maker *m)
{
        struct slice sys = S("/sys");
        for (size_t i = 0; i < m->rules->count; i++)
                if (path_is_within(m->rules->list[i].path, sys))
                        return 0;
        bool is_writable = rule_tree_access(&m->tree, sys) == ACCESS_WRITE;
        return is_writable ? add_named(m, sys, ACCESS_READ, "settings of the machine") : 0;
}

static int collect_rules(struct maker *m)
{
        const struct rules *rules = m->rules;
        for (size_t i = 0; i < rules->count; i++) {
                static const char *const why[] = { "denied", "readable", "writable" };
                int r = add_named(m, rules->list[i].path, rules->list[i].access, why[rules->list[i].access]);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; rules->has_platform && !rules->reads_all && rules_platform_roots[i]; i++) {
                struct slice path = slice_from_str(rules_platform_roots[i]);
                int r = rules_at(rules, path) ? 0 : add_named(m, path, ACCESS_READ, "needed to run programs");
                if (r < 0)
                        return r;
        }
        int r = protect_sys(m);
        if (r < 0)
                return r;
        struct node dev = { .path = S("/dev"), .named = S("/dev"), .is_private = true, .why = "private" };
        return node_add(m, &dev);
}

/* ---- protected names ---- */

bool is_protected_name(struct slice name)
{
        for (size_t i = 0; rules_protected_names[i]; i++)
                if (slice_eq(name, slice_from_str(rules_protected_names[i])))
                        return true;
        return false;
}

/* Inside a `.git` of a root that was opened on purpose there is nothing more to protect by name. A workspace that lies in
 * somebody's `.codex` is as any other. */
static bool is_inside_protected(const struct maker *m, struct slice path)
{
        for (struct slice above; path.n > 1; path = above) {
                above = path_parent(path);
                size_t from = above.n == 1 ? 1 : above.n + 1; /* behind the slash */
                const struct node *root = node_at(m, above);
                if (root && root->access == ACCESS_WRITE &&
                    is_protected_name(slice_from(path.p + from, path.n - from)))
                        return true;
        }
        return false;
}

/* A link that the command can point elsewhere would take the rule with it. */
static int check_node_links(struct maker *m, const struct node *n)
{
        if (n->access == ACCESS_WRITE || (n->is_match && m->is_for_files))
                return 0;
        for (size_t k = 0; k < n->seen.link_count; k++) {
                struct slice link = n->seen.links[k].at;
                if (access_at(m, path_parent(link)) != ACCESS_WRITE)
                        continue;
                return refuse(m, "replace the link by what it points at, or name that in the profile",
                              "cannot enforce sandbox %s path %.*s because it crosses writable symlink %.*s",
                              n->access == ACCESS_DENY ? "deny-read" : "read-only", SLICE(n->named),
                              SLICE(link));
        }
        return 0;
}

static int protect_seen(struct maker *m, struct slice path, const struct seen *seen, const char *why)
{
        struct node n = { .path = seen->path,
                          .named = path,
                          .access = ACCESS_READ,
                          .why = why,
                          .is_protected = true,
                          .seen = *seen };
        /* The caller's own entry is never narrowed. But a link to what has one is not that entry: the name can be given to
         * something else. */
        if (node_at(m, n.path) && !node_at(m, n.path)->is_pin)
                return check_node_links(m, &n);
        /* What cannot be written anyway needs no protection. */
        if (access_at(m, n.seen.base) != ACCESS_WRITE && n.seen.link_count == 0)
                return 0;
        return node_add(m, &n);
}

static int protect(struct maker *m, struct slice path, const char *why)
{
        struct seen seen;
        int r = look_at(m->arena, path, &seen);
        return r < 0 ? cannot_look(m, path, r) : protect_seen(m, path, &seen, why);
}

/* `.git` may be a file that names the repository, and that one a file that names a common one. */
static int protect_pointers(struct maker *m, struct slice git)
{
        struct slice text, at = path_parent(git);
        if (!look_pointer(m->arena, git, S("gitdir:"), &text))
                return 0;
        for (int i = 0; i < 2; i++) {
                /* As git does it: from where the file really is, and `..` is what lies above, not the text before it. */
                struct slice path = text.p[0] == '/' ? text : path_join(m->arena, at, text);
                struct seen seen;
                int r = look_at(m->arena, path, &seen);
                if (r == -ENOENT)
                        return 0; /* back out of what does not exist: it names nothing */
                if (r < 0)
                        return cannot_look(m, path, r);
                r = protect_seen(m, path, &seen,
                                 i == 0 ? "named by a protected .git" : "common to worktrees");
                if (r < 0)
                        return r;
                at = seen.path;
                if (!look_pointer(m->arena, path_join(m->arena, at, S("commondir")), S(""), &text))
                        return 0;
        }
        return 0;
}

static int protect_root(struct maker *m, struct slice root)
{
        for (size_t i = 0; rules_protected_names[i]; i++) {
                struct slice path = path_join(m->arena, root, slice_from_str(rules_protected_names[i]));
                int r = protect(m, path, "protected");
                if (r == 0 && i == 0)
                        r = protect_pointers(m, path);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int collect_protected(struct maker *m)
{
        for (size_t i = 0; i < m->sorted.count; i++) {
                const struct node *n = &m->sorted.list[i];
                if (n->access != ACCESS_WRITE || !n->seen.is_directory || is_inside_protected(m, n->path))
                        continue;
                int r = protect_root(m, n->path);
                if (r < 0)
                        return r;
        }
        nodes_join(m);
        return 0;
}

static int collect_denied(struct maker *m, const struct slice *denied, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                int r = add_node(m, (struct node){ .named = denied[i],
                                                   .access = ACCESS_DENY,
                                                   .why = "matches a denied pattern",
                                                   .is_match = true });
                if (r < 0)
                        return r;
        }
        nodes_join(m);
        return 0;
}

/* ---- what would undo a rule ---- */

static int check_links(struct maker *m)
{
        int r = 0;
        for (size_t i = 0; r == 0 && i < m->sorted.count; i++)
                r = check_node_links(m, &m->sorted.list[i]);
        return r;
}

/* Those that `is_idle` says nothing would be lost with. */
static void nodes_drop(struct maker *m, bool (*is_idle)(const struct maker *, const struct node *))
{
        struct nodes kept = { 0 };
        for (size_t i = 0; i < m->sorted.count; i++)
                if (!is_idle(m, &m->sorted.list[i]))
                        nodes_append(m->arena, &kept, &m->sorted.list[i]);
        m->sorted = kept;
}

/* A root through a link that a command can point elsewhere would let it choose what is granted to the next: it gives
 * nothing. Other entries are refused (check_links). */
static bool is_movable_root(const struct maker *m, const struct node *n)
{
        for (size_t k = 0; n->access == ACCESS_WRITE && k < n->seen.link_count; k++)
                if (access_at(m, path_parent(n->seen.links[k].at)) == ACCESS_WRITE)
                        return true;
        return false;
}

/* What protects takes away and never gives: who wrote a `.git` may have it point at what the profile denies. */
static bool is_needless_protection(const struct maker *m, const struct node *n)
{
        return n->is_protected &&
               access_at(m, n->seen.exists ? path_parent(n->path) : n->seen.base) != ACCESS_WRITE;
}

static int pin(struct maker *m, struct slice path)
{
        struct node n = {
                .path = path, .named = path, .access = ACCESS_WRITE, .is_pin = true, .why = "pinned"
        };
        int r = look_at(m->arena, path, &n.seen);
        if (r == 0 && (!n.seen.exists || !slice_eq(n.seen.path, path)))
                r = -ESTALE;
        return r < 0 ? cannot_look(m, path, r) : node_add(m, &n);
}

/* Every directory between a writable root and something in it that is named: narrower, or a root of its own. */
static int collect_pins(struct maker *m)
{
        struct slice last = S("");
        for (size_t i = 0; i < m->sorted.count; i++) {
                const struct node *n = &m->sorted.list[i];
                if (n->path.n == 1)
                        continue;
                struct slice at = n->seen.exists || n->is_private ? path_parent(n->path) : n->seen.base;
                if (slice_eq(at, last))
                        continue; /* its neighbour has pinned the same directories */
                last = at;
                for (; access_at(m, at) == ACCESS_WRITE && !node_at(m, at); at = path_parent(at)) {
                        int r = pin(m, at);
                        if (r < 0)
                                return r;
                }
        }
        nodes_join(m);
        return 0;
}

static int make(struct maker *m, const struct slice *denied, size_t denied_count)
{
        if (!m->plan->has_view)
                return 0;
        rule_tree_build(m->arena, m->rules, &m->tree);
        int r = collect_rules(m);
        if (r == 0) {
                nodes_join(m);
                nodes_drop(m, is_movable_root);
                r = collect_protected(m);
        }
        if (r == 0)
                r = collect_denied(m, denied, denied_count);
        if (r == 0)
                r = check_links(m);
        if (r == 0) {
                nodes_drop(m, is_needless_protection);
                r = collect_pins(m);
        }
        return r == 0 ? plan_emit(m) : r;
}

int plan_make(struct arena *a, const struct rules *rules, bool has_network, const struct slice *denied,
              size_t denied_count, struct plan *ret, struct err *err)
{
        struct maker m = { .arena = a, .rules = rules, .err = err, .plan = ret };
        *ret = (struct plan){ .has_view = rules->limits_files, .has_network = has_network };
        return make(&m, denied, denied_count);
}

int plan_make_for_files(struct arena *a, const struct rules *rules, const struct slice *denied,
                        size_t denied_count, struct plan *ret, struct err *err)
{
        struct maker m = { .arena = a, .is_for_files = true, .rules = rules, .err = err, .plan = ret };
        *ret = (struct plan){ .has_view = rules->limits_files,
                              .globs = rules->globs,
                              .glob_count = rules->glob_count,
                              .glob_depth = rules->glob_depth };
        return make(&m, denied, denied_count);
}

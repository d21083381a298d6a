/* plan: collects the paths that matter to a plan and the access that holds at each; plan_emit.c turns them into operations.
 *
 * Beside the entries of the profile these paths are: the files that programs need to run, the protected names of every
 * writable root and what their pointers name, the matches of patterns, and every directory between a writable root and a
 * narrower path below it. The command must not rename such a directory, so it is pinned.
 */
#include "plan/plan_internal.h"
#include "policy/pattern.h"

#include <errno.h>

ACCESS_COMPARED(3);

/* ---- what the profile names ---- */

/* Every sandbox has its own /dev and /proc, so entries that grant access to those of the machine have no effect. */
static bool is_ours(const struct plan_node *n)
{
        bool is_proc = path_is_within(n->path, S("/proc"));
        return n->access != ACCESS_DENY && (is_proc || slice_eq(n->path, S("/dev")));
}

int plan_cannot_look(struct planner *m, struct slice path, int r)
{
        m->err->os_errno = -r;
        return plan_refuse(m, "run the server as a user who may look at this path, or leave the entry out",
                           "cannot enforce sandbox path %.*s: %s", SLICE(path), errno_text(-r));
}

/* Can an entry be left out whose path the server cannot reach (error `r`)? The command cannot reach the path either, unless
 * it can change that: the path is inside of a directory that the command may write, or behind a link that may lead
 * elsewhere later. Leaving out an entry that grants something grants less. Any other error says nothing about the path. */
static bool can_do_without(const struct planner *m, const struct plan_node *n, int r)
{
        struct slice path = n->named;
        bool is_in_writable = path.n > 1 && rule_tree_access(&m->tree, path_parent(path)) == ACCESS_WRITE;
        if (r != -EACCES && r != -ELOOP && r != -ENAMETOOLONG)
                return false;
        /* This writable root may be inside of another one, in a directory whose mode an earlier command has changed to keep the
         * server out. The next command could change the mode back, and would find nothing protected in the root. */
        if (n->access == ACCESS_WRITE && r == -EACCES && n->seen.is_own)
                return false;
        return n->access == ACCESS_WRITE ||
               (n->access == ACCESS_READ && r == -EACCES && !is_in_writable && n->seen.link_count == 0);
}

/* Refuses a root that is an empty directory with the mode of a placeholder. It counts as missing, so its protected names
 * would not be protected, although the command can change it when a writable root is around it. A protected name that looks
 * like a placeholder is protected all the same. */
static int root_missing(struct planner *m, const struct plan_node *n)
{
        if (!n->seen.is_placeholder || path_is_protected(n->path))
                return 0;
        return plan_refuse(m, "give this directory another mode",
                           "cannot enforce sandbox path %.*s: it looks like a placeholder of a sandbox",
                           SLICE(n->named));
}

static int add_node(struct planner *m, struct plan_node n)
{
        struct slice path = n.named;
        enum access access = n.access;
        int r = look_at(m->arena, path, &n.seen);
        if (r < 0)
                return can_do_without(m, &n, r) ? 0 : plan_cannot_look(m, path, r);
        n.path = n.seen.path;
        if (is_ours(&n))
                return 0;
        if (access == ACCESS_WRITE && !n.seen.exists)
                return root_missing(m, &n);
        return node_add(m, &n);
}

static int add_named(struct planner *m, struct slice path, enum access access, const char *why)
{
        return add_node(m, (struct plan_node){ .named = path, .access = access, .why = why });
}

/* Files in /sys are settings of the machine. They stay read-only where everything is writable, unless the profile names one. */
static int protect_sys(struct planner *m)
{
        struct slice sys = S("/sys");
        for (size_t i = 0; i < m->rules->count; i++)
                if (path_is_within(m->rules->list[i].path, sys))
                        return 0;
        bool is_writable = rule_tree_access(&m->tree, sys) == ACCESS_WRITE;
        return is_writable ? add_named(m, sys, ACCESS_READ, "settings of the machine") : 0;
}

static int add_closed(struct planner *m, struct slice path)
{
        struct plan_node n = {
                .named = path, .access = ACCESS_DENY, .why = "the server's own", .is_closed = true
        };
        int r = look_at(m->arena, path, &n.seen);
        if (r == -EACCES && !n.seen.is_own)
                return 0; /* a path that the server cannot reach holds none of its files */
        if (r < 0)
                return plan_cannot_look(m, path, r);
        /* The target is closed, whichever links led to it: the server follows the same links. */
        n.path = n.named = n.seen.path;
        n.seen.link_count = 0;
        return n.seen.exists ? node_add(m, &n) : 0;
}

static const char *why_of(enum access access)
{
        switch (access) {
        case ACCESS_DENY:
                return PLAN_WHY_DENIED;
        case ACCESS_READ:
                return PLAN_WHY_READABLE;
        case ACCESS_WRITE:
                return PLAN_WHY_WRITABLE;
        }
        __builtin_trap();
}

static int collect_rules(struct planner *m)
{
        const struct rules *rules = m->rules;
        for (size_t i = 0; i < rules->count; i++) {
                int r = add_node(m, (struct plan_node){ .named = rules->list[i].path,
                                                        .access = rules->list[i].access,
                                                        .why = why_of(rules->list[i].access),
                                                        .is_named = true });
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; rules->has_platform && !rules->reads_all && rules_platform_roots[i]; i++) {
                struct slice path = slice_from_str(rules_platform_roots[i]);
                int r = rules_at(rules, path) ? 0 : add_named(m, path, ACCESS_READ, PLAN_WHY_PLATFORM);
                if (r < 0)
                        return r;
        }
        int r = protect_sys(m);
        for (size_t i = 0; r == 0 && i < m->in->closed_count; i++)
                r = add_closed(m, m->in->closed[i]);
        if (r < 0)
                return r;
        struct plan_node dev = {
                .path = S("/dev"), .named = S("/dev"), .is_private = true, .why = "private"
        };
        return node_add(m, &dev);
}

static int collect_denied(struct planner *m, const struct slice *denied, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                int r = add_node(m, (struct plan_node){ .named = denied[i],
                                                        .access = ACCESS_DENY,
                                                        .why = PLAN_WHY_MATCH,
                                                        .is_match = true });
                if (r < 0)
                        return r;
        }
        nodes_join(m);
        return 0;
}

/* ---- links and renames that would undo a rule ---- */

static int check_links(struct planner *m)
{
        int r = 0;
        for (size_t i = 0; r == 0 && i < m->sorted.count; i++)
                r = plan_check_links(m, &m->sorted.list[i]);
        return r;
}

/* The prefix of a pattern is checked as the path of a rule is, because the search starts there. */
static int check_glob_links(struct planner *m)
{
        int r = 0;
        for (size_t i = 0; r == 0 && m->in->has_linked_globs && i < m->rules->glob_count; i++) {
                const struct pattern *p;
                struct plan_node n = { .access = ACCESS_DENY };
                r = pattern_compile(m->arena, m->rules->globs[i], &p, m->err);
                if (r < 0)
                        return r;
                n.named = pattern_prefix(p);
                r = look_at(m->arena, n.named, &n.seen);
                r = r < 0 ? plan_cannot_look(m, n.named, r) : plan_check_links(m, &n);
        }
        return r;
}

/* Is this a root behind a link that a command can replace? The command could choose what the next command may access, so such
 * a root grants nothing. Other entries behind such links are refused (check_links). */
static bool is_movable_root(const struct planner *m, const struct plan_node *n)
{
        for (size_t k = 0; n->access == ACCESS_WRITE && k < n->seen.link_count; k++)
                if (access_at(m, path_parent(n->seen.links[k].at)) == ACCESS_WRITE)
                        return true;
        return false;
}

/* Is this a protected path that the command could not write anyway? Protecting it could even grant access: the author of a
 * `.git` file may point it at a path that the profile denies. */
static bool is_needless_protection(const struct planner *m, const struct plan_node *n)
{
        return n->is_protected &&
               access_at(m, n->seen.exists ? path_parent(n->path) : n->seen.base) != ACCESS_WRITE;
}

static int pin(struct planner *m, struct slice path)
{
        struct plan_node n = {
                .path = path, .named = path, .access = ACCESS_WRITE, .is_pin = true, .why = PLAN_WHY_PINNED
        };
        int r = look_at(m->arena, path, &n.seen);
        if (r == 0 && (!n.seen.exists || !slice_eq(n.seen.path, path)))
                r = -ESTALE;
        return r < 0 ? plan_cannot_look(m, path, r) : node_add(m, &n);
}

/* Pins every directory between a writable root and a path in it that has an operation of its own. */
static int collect_pins(struct planner *m)
{
        struct slice last = S("");
        for (size_t i = 0; i < m->sorted.count; i++) {
                const struct plan_node *n = &m->sorted.list[i];
                if (n->path.n == 1)
                        continue;
                struct slice at = n->seen.exists || n->is_private ? path_parent(n->path) : n->seen.base;
                if (slice_eq(at, last))
                        continue; /* the previous node has pinned the same directories */
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

static int make(struct planner *m)
{
        if (!m->plan->has_view)
                return 0;
        rule_tree_build(m->arena, m->rules, &m->tree);
        int r = collect_rules(m);
        if (r == 0) {
                nodes_join(m);
                nodes_drop(m, is_movable_root);
                r = plan_collect_protected(m);
        }
        if (r == 0)
                r = collect_denied(m, m->in->denied, m->in->denied_count);
        if (r == 0)
                r = plan_collect_aliases(m);
        if (r == 0)
                r = check_links(m);
        if (r == 0)
                r = check_glob_links(m);
        if (r == 0) {
                nodes_drop(m, is_needless_protection);
                r = collect_pins(m);
        }
        return r == 0 ? plan_emit(m) : r;
}

int plan_make(struct arena *a, const struct plan_input *in, struct plan *ret, struct err *err)
{
        const struct rules *rules = in->rules;
        struct planner m = {
                .arena = a, .in = in, .rules = rules, .mounts = in->mounts, .err = err, .plan = ret
        };
        *ret = (struct plan){ .has_view = rules->limits_files, .has_network = in->has_network };
        if (in->is_for_files) {
                ret->globs = rules->globs;
                ret->glob_count = rules->glob_count;
                ret->glob_depth = rules->glob_depth;
        }
        return make(&m);
}

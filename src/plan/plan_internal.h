/* plan_internal: the planner and its nodes, which plan.c, plan_alias.c and plan_emit.c share: the paths of a plan before
 * they become operations. */
#pragma once

#include "plan/look.h"
#include "plan/plan.h"
#include "policy/entries.h"
#include "policy/rule_tree.h"

/* A path without symbolic links, and the access that holds there. */
struct plan_node {
        struct slice path;
        struct slice named; /* as the profile names it, for error messages */
        enum access access;
        const char *why;
        const char *named_why; /* plan_op::named_why */
        bool is_pin;           /* the path has no access of its own, but must not be renamed */
        bool is_private;       /* /dev: hidden, because the sandbox makes its own */
        bool is_protected;     /* a protected name (docs/PERMISSIONS.md) */
        bool is_match;         /* the path matches a denied pattern */
        bool is_closed;        /* a file of the server, which no profile opens */
        bool is_named;         /* an entry of the profile names the path */
        struct seen seen;
};

struct plan_nodes {
        struct plan_node *list;
        size_t count, room;
};

struct planner {
        struct arena *arena;
        const struct plan_input *in;
        const struct rules *rules; /* rules and mounts are those of `in` */
        const struct mount_table *mounts;
        struct rule_tree tree; /* made from the rules */
        struct err *err;
        struct plan_nodes sorted; /* sorted by path, each path once; these are searched */
        struct plan_nodes fresh;  /* new nodes, which nodes_join merges */
        struct plan *plan;
        size_t op_room;
        struct slice *made; /* paths that were made in the empty root and in masks */
        size_t made_count, made_room;
};

/* node_at returns the node at this path, node_above the deepest node at or above it; NULL when there is none. */
NODISCARD struct plan_node *node_at(const struct planner *m, struct slice path);
NODISCARD struct plan_node *node_above(const struct planner *m, struct slice path);
/* Adds a node, which is found only after nodes_join. Returns 0, or -errno with m->err when there are too many. */
NODISCARD int node_add(struct planner *m, const struct plan_node *node);
void nodes_join(struct planner *m);
/* Removes the nodes for which `is_idle` returns true. */
void nodes_drop(struct planner *m, bool (*is_idle)(const struct planner *, const struct plan_node *));

/* Fills m->err (step "plan") and returns -EINVAL. `remedy` is a literal. */
int plan_refuse(struct planner *m, const char *remedy, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Fills m->err: this path cannot be examined, because of the error `r`. Returns -EINVAL. */
int plan_cannot_look(struct planner *m, struct slice path, int r);

/* Returns the access at this path; ACCESS_DENY where no node is. */
NODISCARD enum access access_at(const struct planner *m, struct slice path);

/* Refuses a node, other than a writable one, behind a link that the command could replace. */
NODISCARD int plan_check_links(struct planner *m, const struct plan_node *n);

/* Adds the protected names of every writable root (plan_protect.c). */
NODISCARD int plan_collect_protected(struct planner *m);

/* Adds the other paths by which the same files can be reached (plan_alias.c). */
NODISCARD int plan_collect_aliases(struct planner *m);

/* Turns sorted nodes into operations (plan_emit.c). */
NODISCARD int plan_emit(struct planner *m);

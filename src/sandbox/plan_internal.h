/* plan_internal: the paths that a plan is made of, before they become operations. */
#pragma once

#include "policy/rule_tree.h"
#include "sandbox/look.h"
#include "sandbox/plan.h"

/* A path that something is said of, links resolved. */
struct node {
        struct slice path;
        struct slice named; /* as the profile has it, for complaints */
        enum access access;
        const char *why;
        bool is_pin;       /* nothing is said of it; it must stay where it is */
        bool is_private;   /* /dev: hidden, and made anew by who enters */
        bool is_protected; /* a name of PERMISSIONS.md 5 */
        bool is_match;     /* of a pattern */
        struct seen seen;
};

struct nodes {
        struct node *list;
        size_t count, room;
};

struct maker {
        struct arena *arena;
        bool is_for_files; /* plan_make_for_files */
        const struct rules *rules;
        struct rule_tree tree; /* of the rules */
        struct err *err;
        struct nodes sorted; /* by path, no two alike: these are searched … */
        struct nodes fresh;  /* … and these join them later */
        struct plan *plan;
        size_t op_room;
        struct slice *made; /* places that have been made in the empty root and in masks */
        size_t made_count, made_room;
};

/* Parents before what is below them, and each subtree in one piece. */
NODISCARD int path_compare(struct slice a, struct slice b);
NODISCARD struct slice path_parent(struct slice path); /* of "/": "/" */
NODISCARD struct slice path_join(struct arena *a, struct slice directory, struct slice name);

/* The one at this path, and the deepest at or above it; NULL when there is none. */
NODISCARD struct node *node_at(const struct maker *m, struct slice path);
NODISCARD struct node *node_above(const struct maker *m, struct slice path);
/* What holds at this path: DENY where nothing is said. */
NODISCARD enum access access_at(const struct maker *m, struct slice path);

/* Is it one of the names of PERMISSIONS.md 5? */
NODISCARD bool is_protected_name(struct slice name);

/* Turns sorted nodes into operations (plan_emit.c). */
NODISCARD int plan_emit(struct maker *m);

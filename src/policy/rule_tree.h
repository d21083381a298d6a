/* rule_tree: an index of the rules of a profile, which finds the access of a path with one search.
 *
 * A search for each component of a path would be slow for thousands of deep paths. So the tree stores for each rule the
 * next rule above it.
 */
#pragma once

#include "base/arena.h"
#include "policy/rules.h"

struct rule_tree {
        const struct rules *rules;
        size_t *above; /* for each rule: the index of the rule above it, or its own index when there is none */
};

/* Builds the tree. `rules` must not move or change afterwards. */
void rule_tree_build(struct arena *a, const struct rules *rules, struct rule_tree *ret);

/* rule_tree_find returns the deepest rule at the path or above it, and rule_tree_above the next rule above a rule; or NULL. */
NODISCARD const struct rule *rule_tree_find(const struct rule_tree *t, struct slice path);
NODISCARD const struct rule *rule_tree_above(const struct rule_tree *t, const struct rule *rule);

/* Returns the access of the deepest rule at or above a path. Patterns, protected names and the platform's roots are not
 * considered. The path is absolute and clean. */
NODISCARD enum access rule_tree_access(const struct rule_tree *t, struct slice path);
/* As rule_tree_access, but with protected names: a path at or below a protected name is writable only by an entry at that name or
 * below it; write access that comes from a directory above counts as read access. */
NODISCARD enum access rule_tree_access_protected(const struct rule_tree *t, struct slice path);

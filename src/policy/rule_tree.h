/* rule_tree: the rules of a profile as a tree, for asking many questions of many rules.
 *
 * rules_access climbs from a path to `/` and searches at every step; with thousands of deep paths from a client that adds up.
 * Here each rule knows the one above it, so that a question costs one search.
 */
#pragma once

#include "base/arena.h"
#include "policy/rules.h"

struct rule_tree {
        const struct rules *rules;
        size_t *above; /* per rule: the index of the rule above it; its own when there is none */
};

/* `rules` must stay where they are. */
void rule_tree_build(struct arena *a, const struct rules *rules, struct rule_tree *ret);

/* The deepest rule at the path or above it, or NULL; and the next one above a rule. */
NODISCARD const struct rule *rule_tree_find(const struct rule_tree *t, struct slice path);
NODISCARD const struct rule *rule_tree_above(const struct rule_tree *t, const struct rule *rule);

/* rules_access. */
NODISCARD enum access rule_tree_access(const struct rule_tree *t, struct slice path);
/* The same with protected names: what may be written only because a directory above such a name may counts as readable,
 * for to write there takes an entry at the name or below it. */
NODISCARD enum access rule_tree_access_protected(const struct rule_tree *t, struct slice path);

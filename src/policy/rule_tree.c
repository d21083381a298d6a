/* rule_tree: builds the tree of rules and finds the rule that applies to a path.
 *
 * The list is sorted with `/` before all other bytes, so paths below a directory follow it directly. Only the rule just
 * before a path in that order, and the rules above that rule, can be above the path.
 */
#include "policy/rule_tree.h"

#include "policy/entries.h"

ACCESS_COMPARED(3);

static size_t common_bytes(struct slice a, struct slice b)
{
        size_t max = MIN(a.n, b.n), n = 0;

        while (n < max && a.p[n] == b.p[n])
                n++;
        return n;
}

void rule_tree_build(struct arena *a, const struct rules *rules, struct rule_tree *ret)
{
        struct rule_tree t = { .rules = rules, .above = arena_alloc(a, (rules->count + 1) * sizeof(size_t)) };

        for (size_t i = 0; i < rules->count; i++) {
                size_t at = i > 0 ? i - 1 : i;
                while (at != i && !path_is_within(rules->list[i].path, rules->list[at].path))
                        at = t.above[at] == at ? i : t.above[at];
                t.above[i] = at;
        }
        *ret = t;
}

const struct rule *rule_tree_above(const struct rule_tree *t, const struct rule *rule)
{
        size_t i = (size_t)(rule - t->rules->list);

        return t->above[i] == i ? NULL : &t->rules->list[t->above[i]];
}

const struct rule *rule_tree_find(const struct rule_tree *t, struct slice path)
{
        const struct rule *list = t->rules->list;
        size_t low = 0, high = t->rules->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (path_compare(list[middle].path, path) > 0)
                        high = middle;
                else
                        low = middle + 1;
        }
        const struct rule *rule = low > 0 ? &list[low - 1] : NULL;
        size_t common = rule ? common_bytes(rule->path, path) : 0;
        for (; rule; rule = rule_tree_above(t, rule)) {
                size_t n = rule->path.n;
                if (n <= common && (n == path.n || n == 1 || path.p[n] == '/'))
                        return rule;
        }
        return NULL;
}

enum access rule_tree_access(const struct rule_tree *t, struct slice path)
{
        if (!t->rules->limits_files)
                return ACCESS_WRITE;
        const struct rule *rule = rule_tree_find(t, path);
        return rule ? rule->access : ACCESS_DENY;
}

/* Returns the component of `path` directly below `above`. */
static struct slice name_below(struct slice path, struct slice above)
{
        size_t skip = above.n == 1 ? 1 : above.n + 1;
        struct slice rest = slice_from(path.p + skip, path.n - skip);

        return slice_split(&rest, '/');
}

enum access rule_tree_access_protected(const struct rule_tree *t, struct slice path)
{
        const struct rule *rule = t->rules->limits_files ? rule_tree_find(t, path) : NULL;
        enum access access = rule_tree_access(t, path);

        if (access == ACCESS_WRITE && rule && rule->path.n < path.n &&
            path_is_protected(name_below(path, rule->path)))
                return ACCESS_READ;
        return access;
}

/* prune: chooses the session that gives way when there are too many. */
#include "unified/prune.h"

/* Returns whether fewer than PRUNE_PROTECTED sessions were used later. */
static bool is_protected(const struct prune_candidate *list, size_t count, size_t i)
{
        size_t later = 0;
        for (size_t k = 0; k < count; k++)
                later += list[k].used > list[i].used;
        return later < PRUNE_PROTECTED;
}

size_t prune_choose(const struct prune_candidate *list, size_t count)
{
        size_t exited = PRUNE_NONE, live = PRUNE_NONE;
        bool has_locked_exited = false;
        for (size_t i = 0; i < count; i++) {
                if (is_protected(list, count, i))
                        continue;
                if (list[i].is_locked) {
                        has_locked_exited |= list[i].has_exited;
                        continue;
                }
                size_t *best = list[i].has_exited ? &exited : &live;
                if (*best == PRUNE_NONE || list[i].used < list[*best].used)
                        *best = i;
        }
        if (exited != PRUNE_NONE)
                return exited;
        return has_locked_exited ? PRUNE_NONE : live;
}

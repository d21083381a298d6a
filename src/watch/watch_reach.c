/* watch_reach: makes and frees the reach of a watch, and counts its users. */
#include "watch/watch_reach.h"

#include "base/mem.h"

struct watch_reach *watch_reach_new(void)
{
        struct watch_reach *l = mem_new(struct watch_reach);
        l->refs = 1;
        l->arena = ARENA_INIT;
        return l;
}

struct watch_reach *watch_reach_ref(struct watch_reach *l)
{
        if (l)
                l->refs++;
        return l;
}

struct watch_reach *watch_reach_unref(struct watch_reach *l)
{
        if (!l || --l->refs > 0)
                return NULL;
        arena_release(&l->arena);
        free(l);
        return NULL;
}

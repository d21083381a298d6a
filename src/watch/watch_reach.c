/* watch_reach: makes and frees the reach of a watch, and counts its users. */
#include "watch/watch_reach.h"

#include "base/mem.h"

struct watch_reach *watch_reach_new(void)
{
        struct watch_reach *r = mem_new(struct watch_reach);
        r->refs = 1;
        r->arena = ARENA_INIT;
        return r;
}

struct watch_reach *watch_reach_ref(struct watch_reach *r)
{
        if (r)
                r->refs++;
        return r;
}

struct watch_reach *watch_reach_unref(struct watch_reach *r)
{
        if (!r || --r->refs > 0)
                return NULL;
        arena_release(&r->arena);
        free(r);
        return NULL;
}

#include "server/watch_law.h"

#include "base/mem.h"
#include "server/filers.h"

int watch_law_make(struct job *job, struct watch_law **ret, struct err *err)
{
        struct watch_law *l = mem_new(struct watch_law);
        l->refs = 1;
        l->arena = ARENA_INIT;
        int r = filers_law(job, &l->arena, &l->law, err);
        *ret = r == 0 ? l : watch_law_unref(l);
        return r < 0 ? r : 0;
}

struct watch_law *watch_law_ref(struct watch_law *l)
{
        if (l)
                l->refs++;
        return l;
}

struct watch_law *watch_law_unref(struct watch_law *l)
{
        if (!l || --l->refs > 0)
                return NULL;
        arena_release(&l->arena);
        free(l);
        return NULL;
}

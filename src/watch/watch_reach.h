/* watch_reach: the reach (reach/reach.h) of a watch with a permission profile; the watch and its passes share it. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "reach/reach.h"

struct watch_reach {
        unsigned refs; /* only the thread of the loop changes this count */
        struct arena arena;
        struct reach reach;
};

/* Makes an empty reach. The caller fills `reach`; everything that `reach` points to must be in `arena`. */
NODISCARD struct watch_reach *watch_reach_new(void);
struct watch_reach *watch_reach_ref(struct watch_reach *r);   /* NULL is fine; returns its argument */
struct watch_reach *watch_reach_unref(struct watch_reach *r); /* NULL is fine; returns NULL */

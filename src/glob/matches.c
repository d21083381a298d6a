/* matches: counts the users of an answer, and writes the error text for an answer that is too large. */
#include "glob/matches.h"

#include <errno.h>
#include <stdlib.h>

struct glob_matches *glob_matches_ref(struct glob_matches *m)
{
        atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
        return m;
}

struct glob_matches *glob_matches_unref(struct glob_matches *m)
{
        if (m && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1)
                free(m);
        return NULL;
}

int glob_refuse_count(struct err *err, struct slice prefix)
{
        err->step = "glob scan";
        err->remedy = "remove some of these files without a sandbox, or deny the directory that they are in";
        return err_set(err, 0, -E2BIG, "unreadable glob expansion for %.*s matched more than %d paths",
                       SLICE(prefix), GLOB_MATCHES_MAX);
}

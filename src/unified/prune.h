/* prune: which session gives way when there are too many. A pure function. */
#pragma once

#include "base/compat.h"

#define PRUNE_PROTECTED 8 /* the sessions that were used last are kept in any case */

struct prune_candidate {
        uint64_t used; /* a higher number was used later; no two are equal */
        bool has_exited;
        bool is_locked; /* a call is using it */
};

#define PRUNE_NONE SIZE_MAX

/* Returns the index of the session that goes, or PRUNE_NONE. Of those that are not protected, the exited one that was used longest ago
 * goes, else the live one that was used longest ago. A locked one never goes; while a locked one has exited no live one goes for it,
 * because the call that uses the exited one ends it soon. */
NODISCARD size_t prune_choose(const struct prune_candidate *list, size_t count);

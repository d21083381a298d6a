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

/* Returns the index of the session that goes, or PRUNE_NONE. Of the sessions that are not protected, the exited session that was used
 * longest ago goes; without an exited session, the live session that was used longest ago. A locked session never goes. While a locked
 * session has exited no live session goes either, because the call that uses the exited session soon removes it. */
NODISCARD size_t prune_choose(const struct prune_candidate *list, size_t count);

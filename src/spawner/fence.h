/* fence: the user namespace in which the user namespaces of all sandboxes are made.
 *
 * What the kernel counts for a user in one namespace, it also counts in the namespaces above. So a limit on this namespace holds
 * for all commands together, and leaves the rest to the server (sandbox/user_limits.h). No process lives in it: an open descriptor
 * keeps it alive. Where it cannot be made, each sandbox is made without it and has its own limit.
 */
#pragma once

#include "base/compat.h"

#include <stdint.h>

#define FENCE_AGAIN_MS 1000 /* how long after a failure the next try is made */

struct fence {
        int fd;            /* the descriptor of the namespace; -1: there is none */
        uint64_t again_ms; /* while there is no fence: when to try again to make it */
};
#define FENCE_NONE ((struct fence){ .fd = -1 })

/* Returns the descriptor of the namespace, or -1. Makes the namespace if there is none, which takes some hundred microseconds. */
NODISCARD int fence_get(struct fence *f);

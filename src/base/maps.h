/* maps: unmaps the memory that a new process shares with other processes. */
#pragma once

#include "base/compat.h"

#include <stddef.h>

/* In a new process: unmaps all memory that it shares with its parent or with other processes, except `kept` (NULL: nothing is
 * kept). Returns 0, or -errno: then some shared memory may still be mapped. Needs /proc. */
NODISCARD int maps_drop_shared(const void *kept);

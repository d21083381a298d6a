/* remedy: advice for people when a step of building a sandbox fails on this machine. */
#pragma once

#include "base/compat.h"

/* Returns the advice as a literal; NULL when there is none. `step` is a name from enter_step_name or spawn_events.failed.
 * Reads a few settings of the kernel, to name the one that is in the way. */
NODISCARD const char *remedy_for(const char *step, int os_errno);

/* remedy: what would help when a step of a sandbox fails on this machine. */
#pragma once

#include "base/compat.h"

/* A sentence for people, a literal; NULL when nobody knows. `step` as enter_step_name and spawn_events.failed have it. Looks
 * at a few settings of the kernel, so that it names the one that is in the way. */
NODISCARD const char *remedy_for(const char *step, int os_errno);

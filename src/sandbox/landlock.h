/* landlock: a second lock on everything that must not be written, raw as sandbox/enter.h is.
 *
 * Mounts decide what is writable; should the machine detach one of them meanwhile, what comes to light beneath it is still
 * not writable. It cannot say "this directory, but not that one in it", so it replaces no mask.
 */
#pragma once

#include "base/compat.h"

/* What the kernel has; 0: none that is of use. The first ABI is not: it refuses to move any file into another directory,
 * also where everything may be written, and honest programs do that. For the self-test and the image. */
NODISCARD int landlock_abi(void);

/* A ruleset that forbids every kind of writing, signals and abstract sockets to the outside included where the kernel
 * knows how; a descriptor or -errno. */
NODISCARD int landlock_begin(uint32_t abi);
/* … but not beneath this directory, or not in this file. */
NODISCARD int landlock_allow(int ruleset, uint32_t abi, int fd, bool is_directory);

/* confine: what farhand-egress gives up before it reads the first byte from anybody. */
#pragma once

#include "base/compat.h"

/* Descriptors above `last_fd` are closed. What the kernel does not know is left out, and what it refuses ends the program: returns -errno. */
NODISCARD int confine_self(int last_fd);
/* The list of system calls that are left; to be called last. */
NODISCARD int confine_calls(void);

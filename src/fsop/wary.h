/* wary: a flag that says whether commands run beside file requests; a command could make an open wait. */
#pragma once

#include "base/compat.h"

/* While the flag is set, the kind of a file is checked before the file is opened for reading, so that no FIFO is opened
 * (base/fd.h). That costs a few microseconds for each open. */
void wary_set(bool is_wary);
NODISCARD bool wary_is_set(void);

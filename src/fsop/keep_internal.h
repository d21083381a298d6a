/* keep: what makes a file the file that it is, besides its content, put onto the one that takes its place. */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

/* Owner, group, ACL and extended attributes of `from` (whose stat is `st`) onto `to`; the mode is the caller's. Labels
 * ("security.") too; but those that any write would take away or make anew (capabilities, digests) are the kernel's. -errno
 * when something cannot be kept; `to` is then fit for the dustbin only. */
NODISCARD int keep_attributes(int from, int to, const struct stat *st);

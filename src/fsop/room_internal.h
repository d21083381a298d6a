/* room: reserves space on the disk for the new content of a file before the old content is overwritten. */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

/* Reserves space for `size` bytes in a regular file, whose stat is `st`; its size and content stay. On failure (-ENOSPC, …) the
 * file is as before. Where the file system cannot reserve space, zeros are written behind the content, and cut off on failure. */
NODISCARD int room_secure(int fd, const struct stat *st, uint64_t size);
/* Gives back the space that was reserved beyond the size in `st`. */
void room_release(int fd, const struct stat *st);

/* room: space on the disk for what will be written over a file, before the old content goes. */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

/* Room for `size` bytes in a regular file that is as `st` says; its size and content stay. On failure (-ENOSPC, …) the
 * file is as before. Where the file system does not know how, what grows is written as zeros and cut off on failure. */
NODISCARD int room_secure(int fd, const struct stat *st, uint64_t size);
/* Gives back what was secured behind `st`'s size. */
void room_release(int fd, const struct stat *st);

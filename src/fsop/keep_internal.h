/* keep: copies owner, ACL and extended attributes of a file to the file that replaces it. */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

/* Gives `to` the owner, group, ACL and extended attributes of `from`, whose stat is `st`; the caller sets the mode. Security
 * labels are copied too, but not the attributes that the kernel removes or makes anew at every write (capabilities, digests).
 * Returns 0, or -errno when something cannot be kept: then the caller must throw `to` away. */
NODISCARD int keep_attributes(int from, int to, const struct stat *st);

/* Returns the mode for `to`, a copy of a file with the mode `mode` and the owner of `from`: set-uid and set-gid stay only when
 * owner and group are the same, because a copy of a set-uid program must not run as another user. */
NODISCARD mode_t keep_mode(mode_t mode, const struct stat *from, const struct stat *to);

/* name_lock: one writer at a time for a name in a directory, among all threads of this process; and for a file that is
 * written in place, which may have several names.
 *
 * The key is exact (device and inode of the directory, and the name; of a file, and none), so that a file system that is
 * stuck holds up only writes of that very file. A lock belongs to nobody in particular: another thread may release it.
 * Nobody who has a file's waits for a name's, so that there is no circle.
 */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

struct name_lock;

/* Waits until it is free. -errno when the directory cannot be asked what it is. */
NODISCARD int name_lock_take(int dirfd, const char *name, struct name_lock **ret);
/* The same for the file that is open as `fd`. */
NODISCARD int file_lock_take(int fd, struct name_lock **ret);
bool file_lock_is_of(const struct name_lock *l, const struct stat *st); /* false for NULL */
struct name_lock *name_lock_release(struct name_lock *l);               /* NULL is fine; returns NULL */

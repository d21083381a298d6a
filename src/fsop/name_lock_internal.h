/* name_lock: one writer at a time for a name in a directory, among all threads of this process.
 *
 * The key is exact (device and inode of the directory, and the name), so that a file system that is stuck holds up only
 * writes of that very name. A lock belongs to nobody in particular: another thread may release it.
 */
#pragma once

#include "base/compat.h"

struct name_lock;

/* Waits until it is free. -errno when the directory cannot be asked what it is. */
NODISCARD int name_lock_take(int dirfd, const char *name, struct name_lock **ret);
struct name_lock *name_lock_release(struct name_lock *l); /* NULL is fine; returns NULL */

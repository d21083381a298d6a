/* name_lock: lets only one thread of this process at a time write a name in a directory, or a file, which may have several names,
 * in place.
 *
 * The key of a name is the device and inode of its directory, and the name; the key of a file is its device and inode. The keys
 * are exact, so that a stuck file system holds up only writes of the same file. Any thread may release a lock. A thread that
 * holds the lock of a file never waits for the lock of a name, so that there is no deadlock.
 */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

struct name_lock;

/* Waits until the lock of a name is free, and takes it. Returns 0, or -errno when fstat fails on `dirfd` or the server refuses the
 * lock (lock.h). */
NODISCARD int name_lock_take(int dirfd, const char *name, struct name_lock **ret);
/* As name_lock_take, for the lock of the file that is open as `fd`. */
NODISCARD int file_lock_take(int fd, struct name_lock **ret);
bool file_lock_is_of(const struct name_lock *l, const struct stat *st); /* false when l is NULL */
struct name_lock *name_lock_release(struct name_lock *l);               /* NULL is fine; returns NULL */

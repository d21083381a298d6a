/* placeholder_lock: counts the users of a placeholder (sandbox/placeholder.h), by locks in a file that no command can open.
 *
 * Every command that sees a placeholder could lock the placeholder itself. So each placeholder has a byte in a file in the state
 * directory (fsop/state.h), which no view shows. The number of the byte is a hash of the placeholder's directory and name, with
 * a key that the file holds, so that nobody can choose a name with the byte of another placeholder. A command holds a shared lock
 * on the byte from before the placeholder exists. At its end the command asks for an exclusive lock, and gets it if no other
 * command shares the byte. The locks belong to the open file (F_OFD_SETLK), so the kernel drops those of dead processes.
 *
 * When two placeholders have the same byte by chance, the first one without users stays until the other has none either, and
 * the next command that uses the first removes it.
 *
 * The file in the state directory belongs to one user of the machine. In a directory that others may write, such as /tmp,
 * commands of several such users share a placeholder. There they are also counted in a common file in /dev/shm, which every
 * user may lock, but no sandboxed command can. A process that holds a lock there for ever only prevents the removal of
 * placeholders in such directories, and delays each start by a moment.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

#include <limits.h>

#define PLACEHOLDER_LOCK_FILE "placeholders.lock"
#define PLACEHOLDER_COMMON_FILE "/dev/shm/farhand-common.lock"

/* A lock file and its key. All zero: no file was opened yet. */
struct placeholder_locks {
        char path[PATH_MAX];
        uint64_t key[2];
        uint64_t dev, ino;
};

/* Opens the lock file in `directory`, or makes it. Returns 0, or -errno with err, also where the file system
 * cannot lock single bytes. */
NODISCARD int placeholder_locks_open(const char *directory, struct placeholder_locks *ret, struct err *err);
/* Is the lock file at the path still the one that was opened? Otherwise call placeholder_locks_open again. */
NODISCARD bool placeholder_locks_are_current(const struct placeholder_locks *l);

/* Return the byte of a name in a directory: in the file of the user, and in the common file. */
NODISCARD uint64_t placeholder_lock_byte(const struct placeholder_locks *l, uint64_t dev, uint64_t ino,
                                         struct slice name);
NODISCARD uint64_t placeholder_common_byte(uint64_t dev, uint64_t ino, struct slice name);

/* ---- raw system calls only: for keepers ---- */

/* Opens the lock file. Returns a descriptor without locks, or -errno. Closing the descriptor drops its locks. */
NODISCARD int placeholder_lock_open(const char *path);
/* Opens the common file, and makes it when it is missing. Returns a descriptor, or -errno. */
NODISCARD int placeholder_common_open(void);
/* Share the lock on a byte. placeholder_lock_share waits a moment for a process that is removing the placeholder;
 * placeholder_lock_share_now does not. Return 0; -EAGAIN while that process holds the lock; or -errno. */
NODISCARD int placeholder_lock_share(int fd, uint64_t byte);
NODISCARD int placeholder_lock_share_now(int fd, uint64_t byte);
/* Takes the lock on a byte for the caller alone, whether the caller shares the lock already or not. Returns 0: no other process
 * gets the lock until the caller drops it; -EAGAIN: another process holds the lock, and the caller no longer shares it; or
 * -errno. */
NODISCARD int placeholder_lock_alone(int fd, uint64_t byte);
void placeholder_lock_drop(int fd, uint64_t byte);

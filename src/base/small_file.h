/* small_file: a small file that people and programs keep, such as a configuration: read as a whole, and replaced in one step.
 *
 * A file that is replaced has its old content or the new content at every moment, also after a crash. A program that changes the file
 * holds a lock on the directory of the file from before it reads the file.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Appends the content of a regular file to *text, up to its ceiling. Returns 0, -EFBIG, or another -errno. *ret_why is set to a
 * literal when the errno alone does not say what is wrong. -ENOENT: there is no such path at all. */
NODISCARD int small_file_read(const char *path, struct buf *text, const char **ret_why);

/* Makes the directory of the file and the directories above that do not exist (mode 0700), and locks the directory. Returns a
 * descriptor, or -errno. To close the descriptor gives the lock back. */
NODISCARD int small_file_lock(const char *path, struct err *err);

/* Replaces the file. A new file gets the mode 0600; a file that exists keeps its mode and owner; a symlink stays, and the file that
 * the symlink leads to is replaced. The caller holds the lock. Returns 0 or -errno; after an error the file is as it was. */
NODISCARD int small_file_replace(const char *path, struct slice text, struct err *err);

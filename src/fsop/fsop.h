/* fsop: file operations that block, as plain functions: paths and options in, data and an error out.
 *
 * They run on threads, many at once, and share nothing. Paths are absolute, bytes without NUL, NUL-terminated. A path is
 * resolved once, to a descriptor; what follows works on descriptors, so that nothing can be swapped between a check and
 * a use. Nothing here waits for a FIFO, a device or a lease.
 *
 * Errors: `code` is -errno. When the system refused, `os_errno` is set and the text is "TEXT (os error N)"; otherwise this code
 * refused, and the text is a message of its own. The error code that a client gets follows from `code` and `os_errno` alone
 * (core/job.c): ENOENT is "not found", EINVAL, EACCES and EPERM are "invalid request", the rest "internal".
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

#include <sys/stat.h>
#include <sys/types.h>

/* Sets err to the system's error `e` (errno or -errno) with the text that clients know. Returns -errno. */
int fsop_fail(struct err *err, int e);
/* Sets err for a request that this code refuses, without os_errno. Returns -EINVAL. */
int fsop_refuse(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Opens a file with O_CLOEXEC | O_NOCTTY | O_NONBLOCK added; returns a descriptor or -errno, -EINVAL for a relative path.
 * O_NONBLOCK has no effect on regular files, except that a file on which another process holds a lease gives -EAGAIN. Without
 * `follow` no component may be a link: a link at the end gives -ELOOP (but O_PATH | O_NOFOLLOW opens the link itself), a link
 * before the end -ENOTDIR. When the flags ask to read or to create, the descriptor of a FIFO may be an O_PATH one: the caller
 * must check the kind of the file. */
NODISCARD int fsop_open(const char *path, int flags, mode_t mode, bool follow);
/* As fsop_open, for a path that is relative to the directory `dirfd`. */
NODISCARD int fsop_open_at(int dirfd, const char *path, int flags, mode_t mode, bool follow);

/* Returns the last component of a path, without slashes behind it. The slice is empty for "/", and when the component is "." or
 * "..", because these names cannot be made, renamed or removed. */
NODISCARD struct slice fsop_last_name(const char *path);

/* Opens the directory that holds the last component of `path`. Returns an O_PATH descriptor or -errno, -EINVAL when
 * fsop_last_name is empty. *ret_name is the last component; it points into `path`, and slashes may follow it. Without `follow` a
 * link among the components before the last gives -ENOTDIR. */
NODISCARD int fsop_open_parent(const char *path, bool follow, struct slice *ret_name);

/* Opens a regular file for reading. Any other kind is refused: "path `P` is not a file" with `follow`, else "path is not a regular
 * file". */
NODISCARD int fsop_open_regular(const char *path, bool follow, int *ret_fd, struct stat *ret_st,
                                struct err *err);

/* Like fsop_open, for a file that is to be changed. Returns -EPERM for a file with several names that does not belong to the owner
 * of its directory, when that directory belongs neither to us nor to root: another user may have made a hard link to our file
 * there. The check is for the name itself; with `follow` the target of a link is not checked. */
NODISCARD int fsop_open_to_change(const char *path, int flags, mode_t mode, bool follow);

/* Returns the error that a file system would report only when the file is closed (NFS: that the disk is full), as -errno, or 0.
 * The descriptor stays open. */
NODISCARD int fsop_flush(int fd);

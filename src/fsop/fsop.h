/* fsop: file operations that block, as plain functions: paths and options in, data and an error out.
 *
 * They run on threads, many at once, and share nothing. Paths are absolute, bytes without NUL, NUL-terminated. A path is
 * resolved once, to a descriptor; what follows works on descriptors, so that nothing can be swapped between a check and
 * a use. Nothing here waits for a FIFO, a device or a lease.
 *
 * Errors: `code` is -errno; `os_errno` is set, and the text is "TEXT (os error N)", when the system refused; otherwise it
 * is a refusal of ours and the text is the whole of it. Which code a client gets follows from these two alone
 * (server/m_fs.c): ENOENT is "not found", EINVAL, EACCES and EPERM are "invalid request", the rest "internal".
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

#include <sys/stat.h>
#include <sys/types.h>

/* The system's answer `e` (errno or -errno) in the words that clients know. Returns -errno. */
int fsop_fail(struct err *err, int e);
/* A check of ours: -EINVAL without os_errno. */
int fsop_refuse(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Opens with O_CLOEXEC | O_NOCTTY | O_NONBLOCK added (O_NONBLOCK is without effect on regular files, but a lease that
 * somebody holds is then -EAGAIN). Without `follow` no component may be a link: -ELOOP when the last is one (O_PATH |
 * O_NOFOLLOW opens that one itself), -ENOTDIR when another is. A descriptor, or -errno; -EINVAL for a relative path. */
NODISCARD int fsop_open(const char *path, int flags, mode_t mode, bool follow);
/* The same from a directory on, for a relative path. */
NODISCARD int fsop_open_at(int dirfd, const char *path, int flags, mode_t mode, bool follow);

/* The directory that holds the last component, as an O_PATH descriptor, and that component (into `path` itself; slashes
 * at the end are left out, so it need not end in a NUL). -EINVAL for "/" and when it is "." or "..". `follow` is about
 * the components before the last: a link among them is -ENOTDIR. */
NODISCARD int fsop_open_parent(const char *path, bool follow, struct slice *ret_name);

/* A regular file, for reading. Refusals: "path `P` is not a file" (with `follow`), "path is not a regular file". */
NODISCARD int fsop_open_regular(const char *path, bool follow, int *ret_fd, struct stat *ret_st,
                                struct err *err);

/* What the file system tells only when a file is closed: on NFS and some others that there was no room after all. The
 * descriptor stays open. -errno. */
NODISCARD int fsop_flush(int fd);

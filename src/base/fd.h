/* fd: descriptors with an owner.
 *
 * Close-on-exec from birth, always. A struct that holds a descriptor holds -1 when it does not.
 */
#pragma once

#include "base/buf.h"
#include "base/compat.h"
#include "base/slice.h"

#include <sys/types.h>

int fd_close(int fd); /* -1 is fine; keeps errno; returns -1, so that `fd = fd_close(fd)` reads well */

static inline void fd_closep(int *fd)
{
        fd_close(*fd);
}
#define _close_ CLEANUP(fd_closep)

#define TAKE_FD(fd)               \
        ({                        \
                int take_ = (fd); \
                (fd) = -1;        \
                take_;            \
        })

NODISCARD int fd_set_nonblock(int fd, bool on); /* 0 or -errno */

/* Reads all of a small file, at most `max` bytes: -EFBIG beyond, other -errno. `path` as open(2) takes it.
 * Appends to *ret, whose own ceiling is a -EFBIG too; a failure adds nothing. */
NODISCARD int fd_read_file(const char *path, size_t max, struct buf *ret);

/* Writes all of it to a blocking descriptor; -errno. */
NODISCARD int fd_write_all(int fd, struct slice s);

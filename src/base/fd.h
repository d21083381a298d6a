/* fd: closes, opens, reads and writes file descriptors.
 *
 * Every descriptor is close-on-exec from the call that makes it. A struct member for a descriptor is -1 while it holds none.
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

/* Returns whether a call on a non-blocking descriptor failed only for the moment: there is nothing to read, or the kernel has no
 * memory. epoll reports the descriptor again when the call can succeed. */
NODISCARD bool fd_is_passing(int os_errno);

/* Returns whether a failed call on a blocking descriptor must be made again: it was interrupted, or the kernel had no memory for
 * it. In the second case this function sleeps for a millisecond, in all for at most a second. `tries` begins with 0. */
NODISCARD bool fd_again(int os_errno, unsigned *tries);

NODISCARD int fd_set_nonblock(int fd, bool on); /* returns 0 or -errno */

/* In a new process: closes all descriptors above 2 but those in `kept`, which may be in any order and may contain -1. */
#define FD_KEPT_MAX 8
void fd_close_all_but(const int kept[], size_t count);

/* Raises the soft limit on open files to the hard limit. The kernel uses the same limit for the descriptors of this user that are
 * in flight over sockets. Returns 0, or -errno when the limit stays as it was. */
int fd_raise_limit(void);

/* Like faccessat(2) without flags: asks for the real user, who is the effective one in all our processes. libc would make another
 * call, which filters of containers and of fs helpers do not allow. Returns 0 or -errno. */
NODISCARD int fd_access(int dirfd, const char *path, int mode);

/* Opening a FIFO waits for its lock, even with O_NONBLOCK, and another process can make the kernel hold that lock for as long as
 * it likes. These two functions never open a FIFO, even if the name is swapped meanwhile: they open the name with O_PATH, check
 * its kind, and open that same file through /proc. For a FIFO they return the O_PATH descriptor; the caller sees that by fstat.
 * Other failures are -errno.
 *
 * fd_open_looked takes a descriptor that was opened with O_PATH, and closes it. It returns -ENOENT when there is no /proc.
 * fd_open_looking is openat(2) with O_CLOEXEC and without O_CREAT. Without /proc it checks the kind and then opens the name. */
NODISCARD int fd_open_looked(int looked, int flags);
NODISCARD int fd_open_looking(int dirfd, const char *path, int flags);

/* Returns the path in /proc of an open descriptor, for calls that take only a path. */
struct fd_link {
        char text[32];
};
NODISCARD struct fd_link fd_link(int fd);

/* Appends all of a small file to *ret. Returns 0; -EFBIG when the file has more than `max` bytes or *ret has no room for it; or
 * another -errno. A failure appends nothing. */
NODISCARD int fd_read_file(const char *path, size_t max, struct buf *ret);
/* As fd_read_file, for an open file, from its current offset on. */
NODISCARD int fd_read_rest(int fd, size_t max, struct buf *ret);

/* Makes an eventfd readable. If the kernel refuses, this tries again for a second; then the program ends by fatal(), because the
 * thread that waits for the eventfd would sleep for ever. */
void fd_signal(int eventfd);

/* Writes all of `s` to a blocking descriptor. Returns 0 or -errno. */
NODISCARD int fd_write_all(int fd, struct slice s);

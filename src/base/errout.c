/* errout: writes to standard error without ever waiting for the program that reads it.
 *
 * Standard error may be a pipe that is never read: a write to it could wait without end. The descriptor cannot be made
 * non-blocking, because other programs share the open file description, and the flag with it.
 */
#include "base/errout.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Writes when poll sees room: the last resort. The write may still block: another thread or program may use up the room after
 * poll has seen it. */
static ssize_t write_if_ready(struct slice text)
{
        struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
        /* A descriptor with an error counts as ready: its write fails without waiting. */
        if (poll(&out, 1, 0) <= 0)
                return -1;
        return write(STDERR_FILENO, text.p, text.n);
}

/* Writes without blocking. Opens standard error once more for that, to get an open file description of our own that is
 * non-blocking. That is refused where the pipe or the terminal belongs to another user, as after su(1). */
static ssize_t write_nonblocking(struct slice text, bool is_pipe)
{
        int own = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own >= 0) {
                ssize_t n = write(own, text.p, text.n);
                int os_errno = errno;
                (void)close(own);
                errno = os_errno;
                return n;
        }

        struct iovec one = { .iov_base = (void *)(uintptr_t)text.p, .iov_len = text.n };
        ssize_t n = is_pipe ? pwritev2(STDERR_FILENO, &one, 1, -1, RWF_NOWAIT) : -1;
        if (n >= 0 || (is_pipe && errno != EOPNOTSUPP && errno != ENOSYS && errno != ESPIPE))
                return n;
        return write_if_ready(text);
}

static ssize_t write_once(struct slice text)
{
        struct stat st;

        if (fstat(STDERR_FILENO, &st) < 0)
                return -1;
        if (S_ISSOCK(st.st_mode))
                return send(STDERR_FILENO, text.p, text.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))
                return write_nonblocking(text, S_ISFIFO(st.st_mode));
        return write(STDERR_FILENO, text.p, text.n);
}

bool errout_write(struct slice text)
{
        ssize_t n;
        do
                n = write_once(text);
        while (n < 0 && errno == EINTR);
        return n == (ssize_t)text.n;
}

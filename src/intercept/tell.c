/* tell: writes without waiting (tell.h).
 *
 * The descriptor is shared with a command: its flags must stay as they are. Sockets and pipes have calls that do not wait; a terminal, and a
 * pipe of an older kernel, is opened once more through /proc, which gives flags of their own. */
#include "intercept/tell.h"

#include "base/fd.h"
#include "base/sys.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static ssize_t write_again_opened(int fd, struct slice text)
{
        _close_ int own = open(fd_link(fd).text, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own < 0)
                return -errno;
        ssize_t n = write(own, text.p, text.n);
        return n < 0 ? -errno : n;
}

ssize_t tell_fd(int fd, struct slice text)
{
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        ssize_t n;
        if (S_ISSOCK(st.st_mode)) {
                n = send(fd, text.p, text.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        } else if (S_ISFIFO(st.st_mode)) {
                const struct iovec all = { (void *)(uintptr_t)text.p, text.n };
                n = pwritev2(fd, &all, 1, -1, RWF_NOWAIT);
                if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
                        return write_again_opened(fd, text);
        } else if (S_ISCHR(st.st_mode) && isatty(fd)) {
                return write_again_opened(fd, text);
        } else {
                n = write(fd, text.p, text.n);
        }
        return n < 0 ? -errno : n;
}

void tell_process(int pidfd, int number, struct slice text)
{
        int fd = sys_pidfd_getfd(pidfd, number);
        if (fd < 0)
                return;
        (void)tell_fd(fd, text); /* nobody is left to whom a failure could be told */
        sys_close(fd);
}

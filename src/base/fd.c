/* fd: closes, opens, reads and writes file descriptors. */
#include "base/fd.h"

#include "base/fatal.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)4096)
/* How often calls are tried, a millisecond apart: by fd_signal, by fd_signal while the counter is full, and with fd_again. */
#define SIGNAL_TRIES 1000
#define SIGNAL_FULL_TRIES 10
#define AGAIN_TRIES 1000

int fd_close(int fd)
{
        if (fd < 0)
                return -1;

        int saved = errno;
        /* close is not repeated on EINTR: Linux has freed the number already. EBADF means a double close, which may
         * hit the descriptor of another client the next time: the program must end. */
        if (close(fd) < 0)
                must(errno != EBADF);
        errno = saved;
        return -1;
}

void fd_close_all_but(const int kept[], size_t count)
{
        int sorted[FD_KEPT_MAX];
        size_t n = 0;
        must(count <= FD_KEPT_MAX);
        for (size_t i = 0; i < count; i++) {
                size_t at = n;
                if (kept[i] <= STDERR_FILENO)
                        continue;
                for (; at > 0 && sorted[at - 1] > kept[i]; at--)
                        sorted[at] = sorted[at - 1];
                sorted[at] = kept[i];
                n++;
        }
        unsigned from = STDERR_FILENO + 1;
        for (size_t i = 0; i < n; i++) {
                if ((unsigned)sorted[i] > from)
                        must(close_range(from, (unsigned)sorted[i] - 1, 0) == 0);
                from = (unsigned)sorted[i] + 1;
        }
        must(close_range(from, ~0U, 0) == 0);
}

int fd_raise_limit(void)
{
        struct rlimit limit;
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return -errno;
        limit.rlim_cur = limit.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

bool fd_is_passing(int os_errno)
{
        return os_errno == EAGAIN || os_errno == EINTR || os_errno == ENOMEM || os_errno == ENOBUFS;
}

bool fd_again(int os_errno, unsigned *tries)
{
        if (os_errno == EINTR)
                return true;
        if ((os_errno != ENOMEM && os_errno != ENOBUFS) || ++*tries == AGAIN_TRIES)
                return false;
        (void)poll(NULL, 0, 1);
        return true;
}

int fd_set_nonblock(int fd, bool on)
{
        int value = on;
        return ioctl(fd, FIONBIO, &value) < 0 ? -errno : 0;
}

static ssize_t read_some(int fd, void *p, size_t n)
{
        ssize_t r;
        do
                r = read(fd, p, n);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : r;
}

/* Reads until the end of the file. `hint` is the size from stat: 0 for most files of /proc, and a guess for the
 * others, because the file may grow. */
static int read_to_end(int fd, size_t max, size_t hint, struct buf *b)
{
        size_t left = MIN(max, b->cap - b->n);

        while (left > 0) {
                size_t want = MIN(left, MAX(hint, CHUNK_BYTES));
                char *room;
                int r = buf_reserve(b, want, &room);
                if (r < 0)
                        return r;

                ssize_t n = read_some(fd, room, want);
                buf_commit(b, n > 0 ? (size_t)n : 0);
                if (n <= 0)
                        return (int)n;
                left -= (size_t)n;
                hint -= MIN(hint, (size_t)n);
        }

        /* The buffer is full: one more byte decides between "just fits" and "too big". */
        char probe;
        ssize_t n = read_some(fd, &probe, 1);
        return n > 0 ? -EFBIG : (int)n;
}

struct fd_link fd_link(int fd)
{
        struct fd_link link;
        (void)snprintf(link.text, sizeof(link.text), "/proc/self/fd/%d", fd);
        return link;
}

int fd_open_looked(int looked, int flags)
{
        _close_ int fd = looked;
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISFIFO(st.st_mode))
                return TAKE_FD(fd);
        if (S_ISLNK(st.st_mode))
                return -ELOOP;
        int opened = open(fd_link(fd).text, (flags & ~O_NOFOLLOW) | O_CLOEXEC);
        return opened < 0 ? -errno : opened;
}

int fd_open_looking(int dirfd, const char *path, int flags)
{
        int looked = openat(dirfd, path, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW));
        int fd = looked < 0 ? -errno : fd_open_looked(looked, flags);
        if (looked < 0 || fd != -ENOENT)
                return fd;
        fd = openat(dirfd, path, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int fd_read_file(const char *path, size_t max, struct buf *ret)
{
        /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return -errno;

        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        return fd_read_rest(fd, max, ret);
}

int fd_read_rest(int fd, size_t max, struct buf *ret)
{
        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        size_t before = ret->n;
        int r = read_to_end(fd, max, st.st_size > 0 ? (size_t)st.st_size : 0, ret);
        if (r < 0)
                buf_truncate(ret, before);
        return r;
}

/* EAGAIN means that the counter is full, and so the eventfd is readable already. No counter should get that far, so EAGAIN is
 * believed only after a few more tries. */
void fd_signal(int eventfd)
{
        for (int n = 0; eventfd_write(eventfd, 1) < 0; n++) {
                int os_errno = errno;
                must(os_errno != EBADF);
                if (n >= SIGNAL_FULL_TRIES && os_errno == EAGAIN)
                        return;
                if (n == SIGNAL_TRIES)
                        fatal("cannot wake a thread", os_errno);
                if (os_errno != EINTR)
                        (void)poll(NULL, 0, 1);
        }
}

int fd_write_all(int fd, struct slice s)
{
        while (s.n > 0) {
                ssize_t n = write(fd, s.p, s.n);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return -EIO; /* no file returns 0; if one did, this loop would never end */
                s.p += n;
                s.n -= (size_t)n;
        }
        return 0;
}

int fd_access(int dirfd, const char *path, int mode)
{
        return syscall(SYS_faccessat, dirfd, path, mode) < 0 ? -errno : 0;
}

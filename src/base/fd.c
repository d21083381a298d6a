/* fd: descriptors with an owner. */
#include "base/fd.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)4096)

int fd_close(int fd)
{
        if (fd < 0)
                return -1;

        int saved = errno;
        /* Not repeated on EINTR: Linux has let go of the number already. EBADF means that somebody else's
         * descriptor was closed before, or will be next: with many clients in one process that must not go
         * on. */
        if (close(fd) < 0)
                must(errno != EBADF);
        errno = saved;
        return -1;
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

/* Until the end of the file. `hint` is the size that stat told: 0 for most of /proc, and no promise
 * elsewhere. */
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

        /* Full: one more byte decides between "just fits" and "too big". */
        char probe;
        ssize_t n = read_some(fd, &probe, 1);
        return n > 0 ? -EFBIG : (int)n;
}

int fd_read_file(const char *path, size_t max, struct buf *ret)
{
        /* O_NONBLOCK: a FIFO in the place of the file must not stop us. */
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return -errno;

        struct stat st;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;

        size_t before = ret->n;
        int r = read_to_end(fd, max, st.st_size > 0 ? (size_t)st.st_size : 0, ret);
        if (r < 0)
                buf_truncate(ret, before);
        return r;
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
                        return -EIO; /* no file does that; a loop without an end would be worse */
                s.p += n;
                s.n -= (size_t)n;
        }
        return 0;
}

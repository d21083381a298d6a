/* room: reserves space on the disk before it is needed. */
#include "fsop/room_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define ZERO_BYTES ((size_t)65536)

void room_release(int fd, const struct stat *st)
{
        struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };

        /* Truncating a file to its own length frees the blocks beyond it. It also changes the time, which is restored where that is
         * permitted. */
        if (ftruncate(fd, st->st_size) == 0)
                (void)futimens(fd, times);
}

static int fill_with_zeros(int fd, off_t from, off_t to)
{
        static const char zeros[ZERO_BYTES];

        while (from < to) {
                ssize_t n = pwrite(fd, zeros, MIN(ZERO_BYTES, (size_t)(to - from)), from);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ENOSPC;
                from += n;
        }
        return 0;
}

/* Returns whether fallocate failed because this file system or kernel cannot reserve space at all. */
static bool cannot_reserve(int r)
{
        return r == -EOPNOTSUPP || r == -ENOSYS || r == -EINVAL || r == -ENODEV || r == -EPERM;
}

/* Returns whether a write of this size would fail: RLIMIT_FSIZE limits writes, but not the space that is reserved for them. */
static bool is_beyond_limit(uint64_t size)
{
        struct rlimit limit;

        return size > INT64_MAX || (getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur);
}

int room_secure(int fd, const struct stat *st, uint64_t size)
{
        if (is_beyond_limit(size))
                return -EFBIG;

        off_t end = (off_t)size;
        bool grows = end > st->st_size;
        bool has_holes = (off_t)st->st_blocks * 512 < MIN(end, st->st_size);
        /* An empty file has no content to lose. Most files of /proc and /sys look empty too. */
        if (st->st_size == 0 || (!grows && !has_holes))
                return 0;

        int r;
        do
                r = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, end) < 0 ? -errno : 0;
        while (r == -EINTR);
        if (cannot_reserve(r)) /* a file without blocks is not on a disk */
                r = grows && st->st_blocks > 0 ? fill_with_zeros(fd, st->st_size, end) : 0;
        if (r < 0)
                room_release(fd, st);
        return r;
}

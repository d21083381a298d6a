/* room: space on the disk before it is needed. */
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

        /* To its own length: frees the blocks behind it, and touches the time, which is put back if we may. */
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

static bool has_no_means(int r)
{
        return r == -EOPNOTSUPP || r == -ENOSYS || r == -EINVAL || r == -ENODEV || r == -EPERM;
}

/* RLIMIT_FSIZE stops writes, not the room that is kept for them. */
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
        /* An empty file has nothing to lose; that is also what most of /proc and /sys is. */
        if (st->st_size == 0 || (!grows && !has_holes))
                return 0;

        int r;
        do
                r = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, end) < 0 ? -errno : 0;
        while (r == -EINTR);
        if (has_no_means(r)) /* no blocks: not kept on a disk at all */
                r = grows && st->st_blocks > 0 ? fill_with_zeros(fd, st->st_size, end) : 0;
        if (r < 0)
                room_release(fd, st);
        return r;
}

/* content: copies the bytes of one regular file to another.
 *
 * It tries, in this order: sharing the blocks (FICLONE); copying only the data between the holes of a sparse file; a copy
 * inside the kernel for large files; reading and writing, which is the fastest for small files.
 */
#include "fsop/content_internal.h"

#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define RANGE_BYTES ((size_t)8 * 1024 * 1024) /* the most for one call of copy_file_range */

static int write_all(int fd, const char *p, size_t n, off_t *at)
{
        while (n > 0) {
                /* pwrite is not used, because `fd` may be a device or a FIFO. */
                ssize_t put = write(fd, p, n);
                if (put < 0 && errno == EINTR)
                        continue;
                if (put <= 0)
                        return put < 0 ? -errno : -ENOSPC;
                p += put;
                n -= (size_t)put;
                *at += put;
        }
        return 0;
}

/* Copies up to `end`, or to the end of the file if that comes first. Both files are at the offset *at. */
static int copy_by_hand(int from, int to, off_t end, struct content_ways *ways, off_t *at)
{
        if (!ways->chunk)
                ways->chunk = mem_alloc(CONTENT_CHUNK_BYTES);

        while (*at < end) {
                ssize_t n = pread(from, ways->chunk, (size_t)MIN((off_t)CONTENT_CHUNK_BYTES, end - *at), *at);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                int r = write_all(to, ways->chunk, (size_t)n, at);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int copy_range(int from, int to, off_t end, struct content_ways *ways, off_t *at)
{
        while (!ways->has_no_range && end - *at > (off_t)CONTENT_CHUNK_BYTES) {
                off_t source = *at;
                ssize_t n =
                        copy_file_range(from, &source, to, NULL, MIN(RANGE_BYTES, (size_t)(end - *at)), 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO))
                        return -errno;
                /* Nothing was copied, or the call was refused, as between some file systems, into devices and from /proc: then
                 * the bytes are read and written instead. */
                if (n <= 0)
                        ways->has_no_range = n < 0;
                if (n <= 0)
                        break;
                *at += n;
        }
        return copy_by_hand(from, to, end, ways, at);
}

/* Copies only what is not a hole, and then sets the length. */
static int copy_sparse(int from, int to, off_t end, struct content_ways *ways, off_t *at)
{
        while (*at < end) {
                off_t data = lseek(from, *at, SEEK_DATA);
                if (data < 0 && errno == ENXIO)
                        break; /* the rest is a hole */
                if (data < 0)
                        return copy_range(from, to, end, ways, at);

                off_t hole = lseek(from, data, SEEK_HOLE);
                if (hole < 0)
                        return -errno;
                if (data >= end)
                        break;
                if (lseek(to, data, SEEK_SET) < 0)
                        return -errno;
                *at = data;
                int r = copy_range(from, to, MIN(hole, end), ways, at);
                if (r < 0)
                        return r;
                if (*at < MIN(hole, end))
                        return 0; /* the source was truncated while it was read */
        }
        *at = end;
        return ftruncate(to, end) < 0 ? -errno : 0;
}

static bool clone_is_hopeless(int e)
{
        return e == EOPNOTSUPP || e == ENOTTY || e == EXDEV || e == ENOSYS || e == EINVAL;
}

int content_copy(int from, const struct stat *st, int to, bool is_fresh, struct content_ways *ways,
                 uint64_t *ret_bytes)
{
        off_t at = 0;
        int r;

        if (is_fresh && st->st_size > 0 && !ways->has_no_clone) {
                if (ioctl(to, FICLONE, from) == 0) {
                        *ret_bytes = (uint64_t)st->st_size;
                        return 0;
                }
                ways->has_no_clone = clone_is_hopeless(errno);
        }

        if (st->st_size == 0) {
                /* Files of /proc and /sys have size 0. Some of them have no end, and some can be read in whole records only. */
                r = st->st_blocks == 0
                            ? copy_by_hand(from, to, LIMIT_COPY_UNSIZED_BYTES + CONTENT_CHUNK_BYTES, ways,
                                           &at)
                            : 0;
                if (at > LIMIT_COPY_UNSIZED_BYTES)
                        r = -EFBIG;
        } else if (is_fresh && (off_t)st->st_blocks * 512 < st->st_size)
                r = copy_sparse(from, to, st->st_size, ways, &at);
        else
                r = copy_range(from, to, st->st_size, ways, &at);
        *ret_bytes = (uint64_t)at;
        return r;
}

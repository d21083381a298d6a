/* cp_near: files of this machine: opened without following a link, written, and finished. */
#include "base/fd.h"
#include "farfs/cp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define SUFFIX ".farhand-part"
#define KEPT_BYTES 200 /* of a name that is too long to be kept as a whole */

struct cp_part cp_part_name(const char *name)
{
        struct cp_part part;
        size_t n = strlen(name);
        if (n + 1 + strlen(SUFFIX) <= CP_NAME_MAX) {
                (void)snprintf(part.name, sizeof(part.name), ".%s" SUFFIX, name);
                return part;
        }
        uint64_t hash = 14695981039346656037U; /* FNV-1a: it only tells long names apart */
        for (size_t i = 0; i < n; i++)
                hash = (hash ^ (unsigned char)name[i]) * 1099511628211U;
        (void)snprintf(part.name, sizeof(part.name), ".%.*s.%016" PRIx64 SUFFIX, KEPT_BYTES, name, hash);
        return part;
}

int cp_near_open(int dirfd, const char *name, struct stat *ret)
{
        int fd = fd_open_looking(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
                return fd;
        int r = fstat(fd, ret) < 0 ? -errno : S_ISREG(ret->st_mode) ? 0 : -EINVAL;
        if (r == 0)
                return fd;
        fd_close(fd);
        return r;
}

int cp_near_write_all(int fd, struct slice content)
{
        while (content.n > 0) {
                ssize_t n = write(fd, content.p, content.n);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ENOSPC;
                content = slice_from(content.p + n, content.n - (size_t)n);
        }
        return 0;
}

int cp_near_finish(int fd, const struct cp_meta *meta)
{
        const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, cp_time(meta->modified_ms) };
        struct stat st;
        if (meta->has_mode && (fstat(fd, &st) < 0 || ((st.st_mode & 07777) != (meta->mode & 0777) &&
                                                      fchmod(fd, meta->mode & 0777) < 0)))
                return -errno;
        return futimens(fd, times) < 0 ? -errno : 0;
}

/* Makes a file. The time is set last: a file that is not complete does not have the time of its source, so it is copied again. */
static int write_new(int dirfd, const char *name, struct slice content, const struct cp_meta *meta)
{
        int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        meta->has_mode ? meta->mode & 0777 : 0666);
        if (fd < 0)
                return -errno;
        int r = cp_near_write_all(fd, content);
        if (r == 0)
                r = cp_near_finish(fd, meta);
        /* On a network file system a full disk may show only now. */
        if (close(fd) < 0 && r == 0)
                r = -errno;
        if (r < 0)
                (void)unlinkat(dirfd, name, 0);
        return r;
}

int cp_near_write(int dirfd, const char *name, struct slice content, const struct cp_meta *meta)
{
        int r = write_new(dirfd, name, content, meta);
        if (r != -EEXIST)
                return r;
        struct cp_part part = cp_part_name(name);
        (void)unlinkat(dirfd, part.name, 0);
        r = write_new(dirfd, part.name, content, meta);
        if (r < 0)
                return r;
        if (renameat(dirfd, part.name, dirfd, name) == 0)
                return 0;
        r = -errno;
        (void)unlinkat(dirfd, part.name, 0);
        return r;
}

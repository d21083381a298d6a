/* meta: reads the metadata, digest, real path and link target of a file. */
#include "fsop/meta.h"

#include "base/fd.h"
#include "base/mem.h"
#include "fsop/at.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <unistd.h>

#define DIGEST_CHUNK_BYTES ((size_t)128 * 1024)
#define META_MASK (STATX_BASIC_STATS | STATX_BTIME)

static int64_t milliseconds(int64_t seconds, int64_t nanoseconds)
{
        int64_t ms;
        if (ckd_mul(&ms, seconds, 1000) || ckd_add(&ms, ms, nanoseconds / 1000000))
                return seconds < 0 ? INT64_MIN : INT64_MAX;
        return ms;
}

void fs_meta_from_stat(const struct stat *st, struct fs_meta *ret)
{
        *ret = (struct fs_meta){
                .is_directory = S_ISDIR(st->st_mode),
                .is_file = S_ISREG(st->st_mode),
                .size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
                .modified_ms = milliseconds(st->st_mtim.tv_sec, st->st_mtim.tv_nsec),
                .mode = st->st_mode & 07777,
                .uid = st->st_uid,
                .gid = st->st_gid,
                .links = st->st_nlink,
        };
}

int fsop_digest_fd(int fd, uint8_t ret[FS_DIGEST_BYTES])
{
        _free_ uint8_t *chunk = mem_alloc(DIGEST_CHUNK_BYTES);
        struct sha256_ctx sha;
        off_t offset = 0;

        sha256_init(&sha);
        for (;;) {
                ssize_t n = pread(fd, chunk, DIGEST_CHUNK_BYTES, offset);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                offset += n;
                if (offset > FS_DIGEST_FILE_MAX)
                        return -EFBIG; /* also when the file grows while it is read */
                sha256_update(&sha, (size_t)n, chunk);
        }
        sha256_digest(&sha, FS_DIGEST_BYTES, ret);
        return 0;
}

static void meta_from_statx(const struct statx *stx, struct fs_meta *ret)
{
        bool has_birth = stx->stx_mask & STATX_BTIME;
        *ret = (struct fs_meta){
                .is_directory = S_ISDIR(stx->stx_mode),
                .is_file = S_ISREG(stx->stx_mode),
                .size = stx->stx_size,
                .created_ms = has_birth ? milliseconds(stx->stx_btime.tv_sec, stx->stx_btime.tv_nsec) : 0,
                .modified_ms = milliseconds(stx->stx_mtime.tv_sec, stx->stx_mtime.tv_nsec),
                .mode = stx->stx_mode & 07777,
                .uid = stx->stx_uid,
                .gid = stx->stx_gid,
                .links = stx->stx_nlink,
        };
}

void fs_meta_from_fd(int fd, const struct stat *st, struct fs_meta *ret)
{
        struct statx stx;
        fs_meta_from_stat(st, ret);
        if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &stx) == 0 && (stx.stx_mask & STATX_BTIME))
                ret->created_ms = milliseconds(stx.stx_btime.tv_sec, stx.stx_btime.tv_nsec);
}

/* Gets the metadata of the file that the path leads to. Makes two calls for a link, and one for any other file. */
static int look_through_links(const char *path, struct fs_meta *ret, struct err *err)
{
        struct statx stx;

        if (at_statx(AT_FDCWD, path, &stx, AT_SYMLINK_NOFOLLOW, META_MASK) < 0)
                return fsop_fail(err, errno);

        bool is_symlink = S_ISLNK(stx.stx_mode);
        if (is_symlink && at_statx(AT_FDCWD, path, &stx, 0, META_MASK) < 0)
                return fsop_fail(err, errno);

        meta_from_statx(&stx, ret);
        ret->is_symlink = is_symlink;
        return 0;
}

/* Gets the metadata of a file, and refuses a path with a link in it. */
static int look_without_links(const char *path, struct fs_meta *ret, struct err *err)
{
        struct statx stx;
        _close_ int fd = fsop_open(path, O_PATH | O_NOFOLLOW, 0, false);

        if (fd == -ELOOP) /* the path ends in a link and a slash */
                return fsop_refuse(err, "path contains a symbolic link");
        if (fd < 0)
                return fsop_fail(err, fd);
        if (statx(fd, "", AT_EMPTY_PATH, META_MASK, &stx) < 0)
                return fsop_fail(err, errno);
        if (S_ISLNK(stx.stx_mode))
                return fsop_refuse(err, "path contains a symbolic link");

        meta_from_statx(&stx, ret);
        return 0;
}

/* Takes size, time and digest from one descriptor, so that they belong together. */
static int add_digest(const char *path, bool follow, struct fs_meta *meta, uint8_t *ret_digest,
                      struct err *err)
{
        struct stat st;
        _close_ int fd = fsop_open(path, O_RDONLY, 0, follow);

        if (fd < 0)
                return fsop_fail(err, fd);
        if (fstat(fd, &st) < 0)
                return fsop_fail(err, errno);

        struct fs_meta looked = *meta;
        fs_meta_from_stat(&st, meta);
        meta->is_symlink = looked.is_symlink;
        meta->created_ms = looked.created_ms;
        if (!S_ISREG(st.st_mode) || st.st_size > FS_DIGEST_FILE_MAX)
                return 0;

        int r = fsop_digest_fd(fd, ret_digest);
        if (r < 0 && r != -EFBIG)
                return fsop_fail(err, r);
        meta->has_digest = r == 0;
        return 0;
}

int fsop_metadata(const char *path, bool follow, struct fs_meta *ret, uint8_t *ret_digest, struct err *err)
{
        struct fs_meta meta;

        int r = follow ? look_through_links(path, &meta, err) : look_without_links(path, &meta, err);
        if (r >= 0 && ret_digest && meta.is_file && meta.size <= FS_DIGEST_FILE_MAX)
                r = add_digest(path, follow, &meta, ret_digest, err);
        if (r >= 0)
                *ret = meta;
        return r;
}

int fsop_canonicalize(const char *path, struct buf *ret, struct err *err)
{
        /* The result is only text, and the kernel looks up every component: the target that a link in /proc shows for a
         * deleted or unreachable file is looked up like any other, and not found. */
        _free_ char *real = at_real(path);
        if (!real)
                return fsop_fail(err, errno);

        return buf_append(ret, slice_from_str(real)) < 0 ? fsop_fail(err, ENAMETOOLONG) : 0;
}

int fsop_read_link(const char *path, struct buf *ret, struct err *err)
{
        char target[PATH_MAX + 1];

        ssize_t n = at_readlink(AT_FDCWD, path, target, sizeof(target));
        if (n < 0)
                return fsop_fail(err, errno);
        if ((size_t)n == sizeof(target) || buf_append(ret, slice_from(target, (size_t)n)) < 0)
                return fsop_fail(err, ENAMETOOLONG);
        return 0;
}

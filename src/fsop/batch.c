/* batch: many files of one directory at once. */
#include "fsop/batch.h"

#include "base/mem.h"
#include "fsop/at.h"
#include "fsop/edit.h"
#include "fsop/entry_internal.h"
#include "fsop/list_internal.h"
#include "fsop/write_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <unistd.h>

#define DIGEST_CHUNK_BYTES ((size_t)128 * 1024)

/* ---- Listing */

static enum fs_scan_kind kind_of(mode_t mode)
{
        return S_ISREG(mode)   ? SCAN_FILE
               : S_ISDIR(mode) ? SCAN_DIRECTORY
               : S_ISLNK(mode) ? SCAN_LINK
                               : SCAN_OTHER;
}

/* Fills in what is known of one name. When it may not be looked at, only its name is known. Returns false when it is gone. */
static bool look(struct arena *a, int dirfd, struct slice name, struct fs_scanned *ret)
{
        struct stat st;
        if (at_stat(dirfd, name.p, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                *ret = (struct fs_scanned){ .name = name, .kind = SCAN_OTHER };
                return errno != ENOENT;
        }
        *ret = (struct fs_scanned){ .name = name, .kind = kind_of(st.st_mode) };
        fs_meta_from_stat(&st, &ret->meta);
        if (ret->kind == SCAN_LINK) {
                char target[PATH_MAX];
                ssize_t n = at_readlink(dirfd, name.p, target, sizeof(target));
                if (n > 0 && (size_t)n < sizeof(target))
                        ret->target = slice_from(arena_dup(a, slice_from(target, (size_t)n)), (size_t)n);
        }
        return true;
}

int fsop_scan(struct arena *a, const char *path, const char *after, size_t limit, struct fs_scanned **ret,
              size_t *ret_count, bool *ret_more, struct err *err)
{
        struct listing list;
        size_t count = 0;
        _close_ int fd = fsop_open(path, O_RDONLY | O_DIRECTORY, 0, true);

        if (fd < 0)
                return fsop_fail(err, fd);
        int r = list_read_links(a, fd, slice_from_str(after), limit, &list);
        if (r < 0)
                return fsop_fail(err, r);
        struct fs_scanned *found = arena_alloc(a, (list.count + 1) * sizeof(*found));
        for (size_t i = 0; i < list.count; i++)
                count += look(a, fd, list.entries[i].name, &found[count]);
        *ret = found;
        *ret_count = count;
        *ret_more = list.total > list.count;
        return 0;
}

/* ---- Reading and writing */

int fsop_batch_open(const char *path)
{
        return fsop_open(path, O_PATH | O_DIRECTORY, 0, true);
}

int fsop_batch_open_file(int dirfd, const char *name, struct stat *ret_st)
{
        int fd = fsop_open_at(dirfd, name, O_RDONLY | O_NOFOLLOW, 0, true);
        if (fd < 0)
                return fd;
        int r = fstat(fd, ret_st) < 0 ? -errno : S_ISREG(ret_st->st_mode) ? 0 : -EINVAL;
        if (r == 0)
                return fd;
        fd_close(fd);
        return r;
}

static int set_time(int fd, int64_t ms)
{
        int64_t seconds = ms / 1000, rest = ms % 1000;
        if (rest < 0) {
                rest += 1000;
                seconds--;
        }
        const struct timespec times[2] = {
                { .tv_nsec = UTIME_OMIT },
                { .tv_sec = seconds, .tv_nsec = rest * 1000000 },
        };
        return futimens(fd, times) < 0 ? -errno : 0;
}

static int write_all(int fd, struct slice content)
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

/* Makes a file that is not there. The time is set last: a file that is not complete does not have the time of its source. */
static int make_new(int dirfd, const struct fs_new_file *file)
{
        mode_t mode = file->has_mode ? file->mode & 0777 : 0666;
        struct stat st;
        _close_ int fd =
                at_open(dirfd, file->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0)
                return -errno;
        int r = write_all(fd, file->content);
        if (r == 0 && file->has_mode && fstat(fd, &st) < 0)
                r = -errno;
        if (r == 0 && file->has_mode && (st.st_mode & 07777) != file->mode &&
            fchmod(fd, (mode_t)file->mode & 07777) < 0)
                r = -errno;
        if (r == 0 && file->has_modified)
                r = set_time(fd, file->modified_ms);
        if (r == 0)
                r = fsop_flush(fd);
        if (r < 0)
                entry_unmake(dirfd, file->name, fd);
        return r;
}

static int replace(const char *path, const struct fs_new_file *file, struct journal *journal, struct err *err)
{
        const struct write_options o = { .is_atomic = true, .size = file->content.n, .journal = journal };
        const struct fs_changes changes = { .has_modified = file->has_modified,
                                            .modified_ms = file->modified_ms };
        struct stat st;
        _buf_ struct buf real = BUF_INIT(PATH_MAX);
        struct writer *writer = NULL;
        /* Links in the path of the directory are followed here. A link that has the name of the file must not be followed. */
        int r = fsop_canonicalize(path, &real, err);
        if (r < 0)
                return r;
        _free_ char *full = mem_printf("%s/%s", slice_eq(buf_slice(&real), S("/")) ? "" : real.p, file->name);
        r = fsop_write_begin(full, &o, &writer, NULL, NULL, err);
        /* The mode comes before the name: others may not look at the new content for a moment. */
        if (r == 0 && file->has_mode) {
                r = fstat(writer_fd(writer), &st) < 0 ? fsop_fail(err, errno) : 0;
                if (r == 0)
                        writer_set_mode(writer, file->mode, &st);
        }
        if (r == 0)
                r = fsop_write_data(writer, file->content, err);
        if (r == 0)
                r = fsop_write_commit(TAKE(writer), NULL, NULL, NULL, err);
        writer = fsop_write_abort(writer);
        if (r == 0 && changes.has_modified)
                r = fsop_set_metadata(full, &changes, false, err);
        return r;
}

int fsop_batch_write(int dirfd, const char *path, const struct fs_new_file *file, struct journal *journal,
                     struct err *err)
{
        int r = make_new(dirfd, file);
        if (r == -EEXIST)
                return replace(path, file, journal, err);
        return r < 0 ? fsop_fail(err, r) : 0;
}

/* ---- Digests */

int fsop_digest_part(const char *path, uint64_t offset, uint64_t length, bool follow,
                     uint8_t ret[FS_DIGEST_BYTES], uint64_t *ret_bytes, uint64_t *ret_size, struct err *err)
{
        struct stat st;
        int fd_made = -1;
        int r = fsop_open_regular(path, follow, &fd_made, &st, err);
        _close_ int fd = fd_made;
        if (r < 0)
                return r;
        uint64_t size = (uint64_t)st.st_size, done = 0;
        uint64_t wanted = MIN(length, size > offset ? size - offset : 0);
        if (wanted > FS_DIGEST_FILE_MAX)
                return fsop_fail(err, EFBIG);
        _free_ uint8_t *chunk = mem_alloc(DIGEST_CHUNK_BYTES);
        struct sha256_ctx sha;
        sha256_init(&sha);
        while (done < wanted) {
                ssize_t n = pread(fd, chunk, MIN((uint64_t)DIGEST_CHUNK_BYTES, wanted - done),
                                  (off_t)(offset + done));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return fsop_fail(err, errno);
                if (n == 0)
                        break;
                sha256_update(&sha, (size_t)n, chunk);
                done += (uint64_t)n;
        }
        sha256_digest(&sha, FS_DIGEST_BYTES, ret);
        *ret_bytes = done;
        *ret_size = size;
        return 0;
}

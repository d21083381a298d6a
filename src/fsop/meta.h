/* meta: reads what the system knows about a file: metadata, digest, real path, link target, and the names in a directory. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "fsop/fsop.h"

#define FS_DIGEST_BYTES 32                       /* SHA-256 */
#define FS_DIGEST_FILE_MAX (512LL * 1024 * 1024) /* larger files are not digested */

struct fs_meta {
        bool is_directory, is_file, is_symlink; /* the first two are about the target of a link */
        bool has_digest;                        /* only if asked for, and for regular files not too large */
        uint64_t size;
        int64_t created_ms, modified_ms; /* created: 0 where the file system does not tell it */
        uint32_t mode;                   /* permission bits, 07777 */
        uint32_t uid, gid;
        uint64_t links;
};

/* Fills in the metadata that stat(2) gives: is_symlink is false, created_ms 0, and there is no digest. */
void fs_meta_from_stat(const struct stat *st, struct fs_meta *ret);

/* As fs_meta_from_stat, but with created_ms, which is asked of `fd` (O_PATH is enough). `fd` must not be a link. */
void fs_meta_from_fd(int fd, const struct stat *st, struct fs_meta *ret);

/* Gets the metadata of a path. Without `follow` a link at the end is refused ("path contains a symbolic link"), and a link before
 * the end gives ENOTDIR. `ret_digest` may be NULL. If it is not, a file that cannot be read is an error, and size and time are
 * those of the content that was read. */
NODISCARD int fsop_metadata(const char *path, bool follow, struct fs_meta *ret, uint8_t *ret_digest,
                            struct err *err);
/* Computes the SHA-256 of a whole regular file; the offset of `fd` is neither used nor moved. Returns 0 or -errno; -EFBIG
 * above FS_DIGEST_FILE_MAX. */
NODISCARD int fsop_digest_fd(int fd, uint8_t ret[FS_DIGEST_BYTES]);

/* Appends the real path: absolute, without links, `.` and `..`. A failure appends nothing; ENAMETOOLONG when the buffer has no
 * room. */
NODISCARD int fsop_canonicalize(const char *path, struct buf *ret, struct err *err);
/* Appends the text of a link. Fails as fsop_canonicalize does. */
NODISCARD int fsop_read_link(const char *path, struct buf *ret, struct err *err);

struct fs_entry {
        struct slice name; /* bytes that need not be UTF-8; in the arena */
        bool is_directory, is_file;
        bool is_symlink;
};
#define FS_LIST_MAX 50000
/* Lists a directory, sorted by bytes. An entry of a link has the kind of its target; broken links are left out. More than
 * FS_LIST_MAX entries are an error ("fs/readDirectory returned N entries; limit is 50000", -EOVERFLOW without os_errno). */
NODISCARD int fsop_list(struct arena *a, const char *path, struct fs_entry **ret, size_t *ret_count,
                        struct err *err);

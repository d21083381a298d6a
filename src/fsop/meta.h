/* meta: what a file is. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "fsop/fsop.h"

#define FS_DIGEST_BYTES 32                       /* SHA-256 */
#define FS_DIGEST_FILE_MAX (512LL * 1024 * 1024) /* larger files are not digested */

struct fs_meta {
        bool is_directory, is_file, is_symlink; /* links followed for all but is_symlink */
        bool has_digest;                        /* asked for, and of a regular file that is not too large */
        uint64_t size;
        int64_t created_ms, modified_ms; /* created: 0 when links are followed, as clients expect */
        uint32_t mode;                   /* permission bits, 07777 */
        uint32_t uid, gid;
        uint64_t links;
};

/* What a descriptor knows: no link, no digest, created 0. */
void fs_meta_from_stat(const struct stat *st, struct fs_meta *ret);

/* Without `follow` a link at the end is the refusal "path contains a symbolic link", one before it ENOTDIR. `ret_digest`
 * may be NULL; with it a file that cannot be read is an error, and size and time are those of what was read. */
NODISCARD int fsop_metadata(const char *path, bool follow, struct fs_meta *ret, uint8_t *ret_digest,
                            struct err *err);
/* SHA-256 of a regular file, from its beginning, whatever its offset is; the offset stays. -errno; -EFBIG above
 * FS_DIGEST_FILE_MAX. */
NODISCARD int fsop_digest_fd(int fd, uint8_t ret[FS_DIGEST_BYTES]);

/* The real path: absolute, no links, no `.` and `..`. Both append; a failure adds nothing, and a ceiling that is met is
 * ENAMETOOLONG. */
NODISCARD int fsop_canonicalize(const char *path, struct buf *ret, struct err *err);
NODISCARD int fsop_read_link(const char *path, struct buf *ret, struct err *err);

struct fs_entry {
        struct slice name; /* bytes; in the arena */
        bool is_directory, is_file;
        bool is_symlink;
};
#define FS_LIST_MAX 50000
/* Sorted by bytes; links are what they point at, broken ones are left out. More than FS_LIST_MAX entries is an error
 * ("fs/readDirectory returned N entries; limit is 50000", -EOVERFLOW without os_errno). */
NODISCARD int fsop_list(struct arena *a, const char *path, struct fs_entry **ret, size_t *ret_count,
                        struct err *err);

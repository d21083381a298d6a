/* batch: operations on many files of one directory, and the digest of a part of a file: what a copy of a tree asks for.
 *
 * The directory is opened once, links followed; names in it are opened without following a link.
 */
#pragma once

#include "fsop/meta.h"

struct journal;

enum fs_scan_kind { SCAN_FILE, SCAN_DIRECTORY, SCAN_LINK, SCAN_OTHER };

struct fs_scanned {
        struct slice name;
        enum fs_scan_kind kind; /* of a link: SCAN_LINK, wherever it leads */
        struct fs_meta meta;
        struct slice target; /* of a link; p == NULL: it could not be read */
};
/* Lists up to `limit` names of a directory that sort behind `after` (NULL: all), with the metadata of each; links are listed as
 * links, those without a target too. *ret_more says whether more names follow. All is in the arena. */
NODISCARD int fsop_scan(struct arena *a, const char *path, const char *after, size_t limit,
                        struct fs_scanned **ret, size_t *ret_count, bool *ret_more, struct err *err);

/* Opens the directory for the functions below. Returns a descriptor or -errno. */
NODISCARD int fsop_batch_open(const char *path);

/* Opens a regular file of the directory for reading. Returns a descriptor or -errno; -ELOOP for a link, -EINVAL for any other kind. */
NODISCARD int fsop_batch_open_file(int dirfd, const char *name, struct stat *ret_st);

struct fs_new_file {
        const char *name;
        struct slice content;
        bool has_mode, has_modified;
        uint32_t mode;
        int64_t modified_ms;
};
/* Writes one file of the directory. A new file is made under its name. An existing file is replaced as fs/writeFile does it: the new
 * file has its mode before it has its name, and gets its time then. Replacing needs `path`, which names the same directory. A failure
 * removes what was made. */
NODISCARD int fsop_batch_write(int dirfd, const char *path, const struct fs_new_file *file,
                               struct journal *journal, struct err *err);

/* Computes the SHA-256 of up to `length` bytes from `offset` on; at most FS_DIGEST_FILE_MAX at once, more is -EFBIG. *ret_bytes is
 * how many bytes there were, and *ret_size is the size of the file. */
NODISCARD int fsop_digest_part(const char *path, uint64_t offset, uint64_t length, bool follow,
                               uint8_t ret[FS_DIGEST_BYTES], uint64_t *ret_bytes, uint64_t *ret_size,
                               struct err *err);

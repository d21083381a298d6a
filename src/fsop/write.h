/* write: replaces the content of a file, completely or not at all.
 *
 * The target is opened for writing first, without truncating and without waiting; if that fails, the write fails. Then the
 * content goes into a temporary file beside the target, which gets the target's mode, owner, xattrs and ACLs and is renamed over
 * it: a reader sees the old content or the new, never a part. The target is written in place where a rename would change more
 * than the content: it has several links, was reached through a symlink, or is a mount point; nothing can be created beside
 * it; or owner, ACL or xattrs cannot be kept. FIFOs and devices are written in place too, without waiting for a reader. In
 * place, space is reserved before the old content is overwritten, so that a full disk leaves the old file.
 *
 * Call fsop_write_begin, fsop_write_data any number of times, then fsop_write_commit or fsop_write_abort. A failed call leaves
 * the old file (as far as the system allows), and only fsop_write_abort may follow.
 */
#pragma once

#include "fsop/meta.h"

struct journal;

enum write_match { MATCH_ANY, MATCH_ABSENT, MATCH_DIGEST, MATCH_STAT };

struct write_options {
        bool is_atomic; /* false: always in place */
        bool create_parents;
        bool follow;
        bool has_mode;
        uint32_t mode; /* for a new file; without has_mode it gets 0666 less the umask */
        uint64_t size; /* how many bytes will be written; space is reserved for them */
        enum write_match match;
        uint8_t digest[FS_DIGEST_BYTES]; /* MATCH_DIGEST */
        uint64_t match_size;             /* MATCH_STAT */
        int64_t match_modified_ms;
        struct journal *journal; /* records temporary files until they are gone; may be NULL */
};

struct writer; /* one write */

/* Begins a write; *ret is to be ended by fsop_write_commit or fsop_write_abort. When the file does not match, the result is -ESTALE
 * without os_errno, "conflict: …", and *ret_current (may be NULL) and *ret_exists (may be NULL) say what is there. Nothing is
 * written before the match was checked. The check is repeated just before the new content takes the place of the old; between this
 * check and that moment no other write of this server can change the file, under whatever name. */
NODISCARD int fsop_write_begin(const char *path, const struct write_options *o, struct writer **ret,
                               struct fs_meta *ret_current, bool *ret_exists, struct err *err);
NODISCARD int fsop_write_data(struct writer *w, struct slice bytes, struct err *err);
/* Ends and frees the writer, whatever it returns. */
NODISCARD int fsop_write_commit(struct writer *w, struct fs_meta *ret, struct fs_meta *ret_current,
                                bool *ret_exists, struct err *err);
struct writer *fsop_write_abort(struct writer *w); /* NULL is fine; returns NULL */

/* write: a file gets new content, whole or not at all.
 *
 * The target is opened for writing first, without truncating and without waiting: if that is refused, that is the answer.
 * Then the content goes into a temporary file beside it, which takes over mode, owner, xattrs and ACLs and is renamed
 * over the target: a reader sees the old or the new, never half. In place, where that would change what the file is:
 * several links, reached through a symlink or a mount of its own, nothing can be created beside it, or owner, ACL or
 * xattrs cannot be kept; FIFOs and devices too, without ever waiting for a reader. In place the room is secured before
 * the old content goes, so that a full disk leaves the old file.
 *
 * fsop_write_begin, fsop_write_data any number of times, then fsop_write_commit or fsop_write_abort. A failed call leaves
 * the old file (as far as the system lets us) and only _abort may follow.
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
        uint32_t mode; /* of a new file; without it 0666 less the umask */
        uint64_t size; /* what will be written in all: room is secured for it */
        enum write_match match;
        uint8_t digest[FS_DIGEST_BYTES]; /* MATCH_DIGEST */
        uint64_t match_size;             /* MATCH_STAT */
        int64_t match_modified_ms;
        struct journal *journal; /* names temporary files until they are gone; may be NULL */
};

struct writer; /* one write */

/* A mismatch is -ESTALE without os_errno, "conflict: …"; then *ret_current (may be NULL) and *ret_exists say what is
 * there. Nothing is written before the whole match was checked; it is checked again, with other writes of this server to
 * the same file kept out (under whatever name), just before the new content takes its place. */
NODISCARD int fsop_write_begin(const char *path, const struct write_options *o, struct writer **ret,
                               struct fs_meta *ret_current, bool *ret_exists, struct err *err);
NODISCARD int fsop_write_data(struct writer *w, struct slice bytes, struct err *err);
/* Ends and frees the writer, whatever it returns. */
NODISCARD int fsop_write_commit(struct writer *w, struct fs_meta *ret, struct fs_meta *ret_current,
                                bool *ret_exists, struct err *err);
struct writer *fsop_write_abort(struct writer *w); /* NULL is fine; returns NULL */

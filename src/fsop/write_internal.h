/* writer: the parts of a write, for write.c, write_*.c and copy.c. */
#pragma once

#include "fsop/entry_internal.h"
#include "fsop/journal.h"
#include "fsop/write.h"

struct name_lock;

/* A write is one of three:
 *   replacing   temp >= 0; target too, unless the file is new
 *   in place    temp < 0, target a regular file; name and file are locked from the beginning to the end
 *   a stream    temp < 0, target a FIFO or device */
struct writer {
        struct write_options o;
        struct entry at; /* where the file is or will be, beyond links to what is not there yet */
        int target;      /* open for writing; -1: there is none */
        struct stat st;  /* of target, as it was found */
        bool is_linked;  /* target was reached through a link */
        bool is_made;    /* target was made by us, in place */
        bool has_room;   /* room was secured in target */
        int temp;        /* what will replace target */
        char temp_name[JOURNAL_TEMP_BYTES];
        int slot;                    /* in the journal, or -1 */
        struct name_lock *lock;      /* of the name */
        struct name_lock *file_lock; /* of what it means, which may be reached by other names too */
        bool has_mode;               /* `mode` is what the file shall have in the end */
        bool is_mode_asked;          /* and not merely what the old one has */
        mode_t mode;
        uint64_t written;
};

/* Locks the name, and the file that is open as `fd`, if any (-1). -errno. */
NODISCARD int writer_lock(struct writer *w, int fd);

/* What the last name is, into w->target, w->st and w->is_linked; w->at moves on when a link leads nowhere yet. A missing
 * file is fine. -errno. */
NODISCARD int writer_find(struct writer *w);

/* Where a mismatch is told to; both may be NULL. */
struct current {
        struct fs_meta *meta;
        bool *exists;
        struct err *err;
};

/* ---- write_match.c */

/* The answer to a mismatch; `st` NULL: there is no file. */
int write_conflict(const struct current *c, const struct stat *st, bool is_linked);
/* Whether what is open as `fd` (-1: nothing is there) is what the caller expects. 0, or the error. */
NODISCARD int writer_match(const struct writer *w, int fd, const struct stat *st, const struct current *c);
/* The same for what the name means by now, with others that write it in place kept out. */
NODISCARD int writer_match_again(struct writer *w, const struct current *c);

/* ---- write_place.c */

/* A temporary file with all that must be kept of the target; -errno, and then there is none. */
NODISCARD int writer_make_temp(struct writer *w);
void writer_drop_temp(struct writer *w); /* and its name in the journal; fine without one */
/* The target itself, when it is new; -EEXIST when it is not any more. */
NODISCARD int writer_make_in_place(struct writer *w);
NODISCARD int writer_secure_room(struct writer *w, uint64_t size);

/* There is no room beside the file, or it cannot be replaced: over to writing it in place, what was written so far again.
 * -errno; `why` when it cannot be done. */
NODISCARD int writer_go_in_place(struct writer *w, int why);

/* ---- write.c */

/* fsop_write_begin on a directory that is open already. Takes *at, also on failure. */
NODISCARD int writer_begin(struct entry *at, const struct write_options *o, struct writer **ret,
                           struct fs_meta *ret_current, bool *ret_exists, struct err *err);

/* For content that comes by other means than fsop_write_data: how much there will be, where to, how much it was. */
NODISCARD int writer_expect(struct writer *w, uint64_t size); /* -errno when there is no room for it */
int writer_fd(const struct writer *w);
void writer_set_written(struct writer *w, uint64_t bytes);
void writer_set_mode(struct writer *w, mode_t mode);

static inline bool writer_is_replacing(const struct writer *w)
{
        return w->temp >= 0;
}

/* write_internal: the state of a write and the functions that write.c, write_*.c and copy.c share. */
#pragma once

#include "fsop/entry_internal.h"
#include "fsop/journal.h"
#include "fsop/write.h"

struct name_lock;

/* A write has one of three forms:
 *   replacing   temp >= 0; target >= 0 too, unless the file is new
 *   in place    temp < 0, target is a regular file; name and file are locked from the beginning to the end
 *   a stream    temp < 0, target is a FIFO or device */
struct writer {
        struct write_options o;
        struct entry at; /* where the file is or will be made; links to a missing file were followed */
        int target;      /* the file, open for writing; -1: it does not exist */
        struct stat st;  /* the stat of target when it was found */
        bool is_linked;  /* target was reached through a link */
        bool is_made;    /* target was made by this write, in place */
        bool has_room;   /* space was reserved in target */
        int temp;        /* the temporary file that will replace target, or -1 */
        char temp_name[JOURNAL_TEMP_BYTES];
        int slot;                    /* of the temporary file in the journal, or -1 */
        struct name_lock *lock;      /* the lock of the name */
        struct name_lock *file_lock; /* the lock of the file itself, which may have other names */
        bool has_mode;               /* `mode` must be set in the end */
        bool is_mode_asked;          /* the caller asked for `mode`; else it is that of the old file */
        mode_t mode;
        bool is_mode_kept;     /* `mode` was copied from another file: keep_mode decides about set-id bits */
        struct stat mode_from; /* the stat of the file that `mode` was copied from */
        uint64_t written;
};

/* Locks the name, and the file that is open as `fd` unless that is -1. Returns 0 or -errno. */
NODISCARD int writer_lock(struct writer *w, int fd);

/* Opens the file that w->at names, and fills in w->target, w->st and w->is_linked. When w->at names a link to a missing file, this
 * function moves w->at on to where that file will be made. Returns 0, also when the file is missing, or -errno. */
NODISCARD int writer_find(struct writer *w);

/* Follows the link that *e names: *e becomes the name that the link points at. Returns 0 or -errno. */
NODISCARD int entry_follow(struct entry *e);

/* Where the state of a file that does not match is stored; `meta` and `exists` may be NULL. */
struct current {
        struct fs_meta *meta;
        bool *exists;
        struct err *err;
};

/* ---- write_match.c */

/* Stores the state of a file that does not match, and returns the error. `st` NULL: the file does not exist. */
int write_conflict(const struct current *c, const struct stat *st, bool is_linked);
/* Checks the condition of the write (write_options::match) on the file that is open as `fd`; -1: it does not exist. Returns
 * 0, or the error. */
NODISCARD int writer_match(const struct writer *w, int fd, const struct stat *st, const struct current *c);
/* As writer_match, for the file that the name means now, while its lock keeps out writers that work in place. */
NODISCARD int writer_match_again(struct writer *w, const struct current *c);

/* ---- write_place.c */

/* Makes a temporary file, with the owner, ACL and attributes of the target if there is one. On failure (-errno) no file is left. */
NODISCARD int writer_make_temp(struct writer *w);
/* Removes the temporary file, if there is one, and its record in the journal. */
void writer_drop_temp(struct writer *w);
/* Creates the target itself. Returns 0 or -errno; -EEXIST when another process has created it meanwhile. */
NODISCARD int writer_make_in_place(struct writer *w);
NODISCARD int writer_secure_room(struct writer *w, uint64_t size);

/* Changes over to writing in place, because there is no room beside the file or it cannot be replaced, and writes the content so
 * far once more. Returns 0 or -errno; `why` when the file cannot be written in place either. */
NODISCARD int writer_go_in_place(struct writer *w, int why);

/* ---- write.c */

/* Like fsop_write_begin, for a name in an open directory. Takes over *at, also on failure. */
NODISCARD int writer_begin(struct entry *at, const struct write_options *o, struct writer **ret,
                           struct fs_meta *ret_current, bool *ret_exists, struct err *err);

/* For a copy, which does not use fsop_write_data: announces `size` bytes, and reserves space for them when the target is written in
 * place. Returns 0, or -errno when there is no space. */
NODISCARD int writer_expect(struct writer *w, uint64_t size);
/* Returns the descriptor to which the copy must write the content. */
int writer_fd(const struct writer *w);
/* Tells the writer how many bytes were written to writer_fd. */
void writer_set_written(struct writer *w, uint64_t bytes);
/* Sets the final mode: `mode`, which is that of the copied file `from`. */
void writer_set_mode(struct writer *w, mode_t mode, const struct stat *from);

static inline bool writer_is_replacing(const struct writer *w)
{
        return w->temp >= 0;
}

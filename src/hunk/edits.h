/* edits: the differences between the old text of a file and the new one. Functions here read the new text, make the way back, and show
 * a diff.
 *
 * Edits are sorted and do not overlap. Edits that touch are joined into one, with one exception: an edit that only gives the last line
 * its terminator (is_terminator) is followed by another edit at the same offset when lines are added behind that line. Every other edit
 * removes and adds whole lines. All bytes between edits stay as they are.
 */
#pragma once

#include "base/arena.h"
#include "hunk/reader.h"

struct edit {
        uint64_t offset;  /* in the old text */
        uint64_t removed; /* how many bytes of the old text give way to `added` */
        struct slice added;
        uint64_t
                line; /* how many lines of the old text are before `offset`; of an is_terminator: before the last line */
        uint64_t removed_lines;
        uint64_t added_lines;
        bool is_terminator; /* the last line gets a terminator; or loses it, in reversed edits. Both line counts are 0 then. */
};

struct edits {
        struct edit *list;
        size_t count;       /* 0: the new text is the old one */
        uint64_t old_bytes; /* the size of the old text */
        uint64_t new_bytes;
        uint64_t old_lines; /* the lines of the old text, the last one with or without terminator */
        uint64_t new_lines;
        uint64_t removed_bytes; /* the sums over all edits */
        uint64_t removed_lines;
        uint64_t added_lines;
};

/* A reader of the new text over a reader of the old one. When the old text has not the size that it had when the places were
 * found, reading fails with -ESTALE: the file has changed meanwhile. */
struct edits_reader {
        const struct edits *edits;
        const struct reader *old;
        bool is_begun;   /* the old text was rewound */
        size_t index;    /* of the next edit */
        uint64_t offset; /* in the old text */
        size_t given;    /* bytes of that edit's `added` that were read */
};

/* Returns a reader of the new text, which begins at its beginning. *e belongs to the caller; *e, the edits and the old reader must
 * outlive the reader that is returned. */
NODISCARD struct reader edits_read(struct edits_reader *e, const struct edits *edits,
                                   const struct reader *old);

/* Makes the edits that lead back from the new text to the old one: reads the old text once, and keeps what the edits remove in the
 * arena. An edit that replaces bytes by equal ones is left out; when none is left, the patch changes nothing. (Two edits may also
 * undo each other: only digests of the texts show that.) Returns 0; -EFBIG when the edits remove more than `max` bytes, all of which would
 * have to be kept (their lines are as long as those of the hunk, but for white space that was not compared); -ESTALE; or what the reader
 * returns. */
NODISCARD int edits_reverse(struct arena *a, const struct edits *edits, const struct reader *old,
                            uint64_t max, struct edits *ret, struct err *err);

/* Where a text goes, piece by piece. Returns 0, or err->code, which ends the writing. */
struct edits_sink {
        int (*write)(void *arg, struct slice piece, struct err *err);
        void *arg;
};

/* Writes the parts of a unified diff ("@@ -1,3 +1,4 @@" and their lines, without file names) with `context` lines around each
 * change. Reads the old text once; twice when its last line gets a terminator, and then the line is written twice. Nothing is
 * written when there are no edits. A line that ends in a lone CR is written with an LF behind it. Returns 0, -ESTALE, or what reader or
 * sink return. */
NODISCARD int edits_diff(const struct edits *edits, const struct reader *old, unsigned context,
                         const struct edits_sink *sink, struct err *err);

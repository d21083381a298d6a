/* compose: from chunks with known places to edits.
 *
 * Context lines keep the bytes of the file; each run of removed and added lines between them is one change. Changes come in the
 * order of the patch. A chunk that only adds lines at the end of the file may come before chunks with earlier places; all other changes
 * come in the order of the file. Lines that are added at the end keep the order of the patch among themselves.
 */
#pragma once

#include "hunk/edits.h"
#include "hunk/parse.h"

/* Returns whether the last old line of a chunk is empty. The chunk must have old lines. Models often end a chunk with an empty context
 * line that the file does not have; such a chunk is tried again without that line. */
NODISCARD bool compose_ends_empty(const struct patch_chunk *c);
/* Returns the lines of a chunk without the last old line, and without the last new line when that is empty. A context line is an old
 * and a new line; it becomes an added or a removed one when it loses only one half. */
NODISCARD const struct patch_line *compose_shorten(struct arena *a, const struct patch_chunk *c,
                                                   size_t *ret_count);

/* What compose_end must know of the file. With `is_open` there is at least one line. */
struct file_shape {
        uint64_t bytes, lines;
        struct slice terminator; /* of the first line; p is NULL when no line has one */
        bool is_open;            /* the last line has no terminator */
};

/* A run of removed and added lines at one place. */
struct line_change {
        uint64_t offset, removed;
        uint64_t line, removed_lines;
        const struct patch_line
                *lines; /* the removed and added lines of the run; no context line is among them */
        size_t line_count;
};

struct line_changes {
        struct line_change *list;
        size_t count, room;
};

/* The caller sets `arena` and `file_lines`; all other members are 0 at first. */
struct composer {
        struct arena *arena; /* for what is needed until compose_end */
        uint64_t file_lines;
        struct line_changes inside, at_end;
};

/* Adds the changes of a chunk whose old lines begin with line `first` of the file. offsets[i] is the offset of the i-th old line, and
 * the last item the offset behind all old lines. The lines of the patch must live until compose_end. */
void compose_block(struct composer *c, const struct patch_line *lines, size_t line_count, uint64_t first,
                   const uint64_t *offsets);

/* Makes the edits, in the arena `a`. */
void compose_end(struct composer *c, struct arena *a, const struct file_shape *file, struct edits *ret);

/* change: what is to be done to the files of the server, and what takes it back.
 *
 * A change says of one path what is there before and after, with both contents as far as they are kept. A list of changes is all that
 * commit, rollback, repair and undo work with; the journal is such a list in a file (record.h).
 *
 * How a file is replaced: content in memory is sent in one conditional request, which the server carries out as a whole. Content that
 * is not in memory is streamed to `temp`, a file in the same directory, which is then renamed over it. What cannot be taken back by writing
 * its old content is renamed to `aside` first, and removed when everything else is done.
 */
#pragma once

#include "patch/draft.h"

/* Names of files beside those of the user: ".farhand-patch-" and 32 random hexadecimal digits. */
#define CHANGE_TEMP_PREFIX ".farhand-patch-"
#define CHANGE_TEMP_RANDOM 32

struct change {
        const char *path;  /* real: without links */
        const char *shown; /* as the patch names it, absolute */
        enum entry_step step;
        size_t order;                    /* the number of the change in the order of the hunks */
        struct file_state before, after; /* `has_mode` of after: the file gets that mode */
        const struct content *old;       /* NULL: not kept, or there was none */
        const struct content *fresh;     /* NULL: there shall be no file, or it is not kept */
        const char *temp;                /* NULL: none is needed */
        const char *aside;               /* NULL: none is needed */
        bool is_in_place; /* the server may write into the file: a kill can leave a mixture of old and new */
};

/* A directory that is made. */
struct change_directory {
        const char *path;
        const char *shown; /* the file that needs the directory, as the patch names it */
};

struct changes {
        /* Sorted by path, first what is written, then what is removed: of two clients at once, one fails at the first file that both
         * change. */
        struct change *list;
        size_t count;
        struct change_directory *directories; /* that are made, those above first; or removed, if `is_undo` */
        size_t directory_count;
        const char *cwd;
        bool is_undo;
};

/* Makes the changes of a draft. Reads large files once more, to find the edits that take the changes back. With `is_partial` the changes
 * are in the order of the hunks. */
void changes_from_draft(struct changes *ret, struct draft *d, const char *cwd, bool is_partial);
/* Decides how each file is replaced. All contents that can be kept must have been read before. */
void changes_choose_ways(struct arena *a, struct changes *all, bool has_control);
/* Makes the changes that take `c` back. The contents that they overwrite are not in memory yet: `old` is NULL everywhere. Returns 0; or
 * -ENOENT when the content of *ret_path was not kept. */
NODISCARD int changes_reverse(struct arena *a, const struct changes *c, struct changes *ret,
                              const char **ret_path);

/* Returns a new name for a file beside `path`. */
NODISCARD const char *change_temp_path(struct arena *a, const char *path);
/* Returns whether `temp` is such a name beside `path`. */
NODISCARD bool change_is_temp_path(const char *temp, const char *path);

/* restore: finds out which of a list of changes are done, and takes them back.
 *
 * A commit that fails, a patch that was interrupted, and an undo need the same: look at each file, compare it with what the change says of
 * before and after, and put the old file back where the file is as the change has left it. A file that is neither as before nor as after
 * the change was changed by another program, and is left alone.
 */
#pragma once

#include "patch/change.h"

enum found {
        FOUND_BEFORE, /* not done yet, or nothing changes */
        FOUND_AFTER,
        FOUND_HALF,    /* the change was begun and not finished */
        FOUND_OTHER,   /* another program has changed the file since */
        FOUND_UNKNOWN, /* the server could not tell what is there */
};

/* Finds out how far each change is; `ret` has an item for each. Returns 0, or -ENOTCONN when the server is gone. */
NODISCARD int changes_look(struct asks *s, const struct changes *c, enum found *ret);

/* Takes back what is done, removes directories that were made, and temporary files. `left` (as many items as changes) gets the changes
 * that could not be taken back, *ret_left how many. Returns 0, or -ENOTCONN when the server is gone: the journal must stay. */
NODISCARD int changes_restore(struct asks *s, const struct changes *c, const enum found *found,
                              const struct change **left, size_t *ret_left);
/* Removes what waits beside the files, after all changes are done, and the directories that an undo leaves empty. Returns 0, or -ENOTCONN
 * when the server was lost: the journal must stay. */
NODISCARD int changes_clean(struct asks *s, const struct changes *c);

/* commit: carries out a list of changes on the server: all of them or none.
 *
 * Before the first change a journal has what takes all of them back. Large files are streamed to temporary files first. Then everything is
 * sent at once: directories are made, files written if they are what they were, others renamed aside. When a request fails, what the others
 * have done is taken back. When the server is lost, the journal stays for the next run.
 */
#pragma once

#include "patch/change.h"
#include "patch/store.h"

struct commit {
        /* Why the commit failed; all three NULL: it did not fail. */
        const struct change *change; /* NULL: a directory could not be made */
        const struct change_directory *directory;
        const struct failure *failure;
        bool is_conflict;       /* the file is not what it was */
        bool is_left_to_repair; /* the server is lost: the next run repairs */
        bool has_journal;       /* the changes are in a journal, so that they can be undone */
        /* Changes that could not be taken back. */
        const struct change **left;
        size_t left_count;
};

/* Carries out the changes. `store` may be NULL: there is no journal then. With `is_partial` changes are made one by one, and stay
 * when a later one fails. Returns 0, or -EIO with *ret filled. */
NODISCARD int changes_commit(struct asks *s, struct changes *c, struct store *store, bool is_partial,
                             struct commit *ret);

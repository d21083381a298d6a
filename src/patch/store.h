/* store: the directory in which the records of patches are kept, on the machine of the client.
 *
 *     DIRECTORY/KEY/lock            held while files are changed, so that of two patches at once one waits
 *     DIRECTORY/KEY/journal-UUID    a patch that is being applied, locked by the process that does it
 *     DIRECTORY/KEY/last-HASH       the last patch of a working directory, for undo
 *
 * KEY stands for the environment. A journal is written before the first change and gets its last-HASH name after the last one: a journal
 * that nobody has locked is a patch that was interrupted. It has one record for each line; the last complete one counts.
 *
 * Directories are for their user alone; directories of other users, links and files that are not regular are not used. Nothing is
 * flushed to the disk: a record outlives every process, not a loss of power.
 */
#pragma once

#include "patch/change.h"

struct store;

/* Opens the directory of an environment, and makes it when it is missing. Returns 0, or -errno with err. */
NODISCARD int store_open(const char *directory, const char *environment_key, struct store **ret,
                         struct err *err);
struct store *store_close(struct store *s); /* NULL is fine; returns NULL */

/* Waits until no other process changes files of this environment. Goes on without the lock after some seconds: the server compares each
 * file before it changes it, so the lock only saves patches from failing. */
void store_lock(struct store *s);
void store_unlock(struct store *s);

/* Makes a journal with this record, and locks it. Returns 0 or -errno; then there is no journal. */
NODISCARD int store_begin(struct store *s, const struct changes *c);
/* Puts a newer record into the journal. */
NODISCARD int store_renew(struct store *s, const struct changes *c);
/* Both end the journal: store_done when the changes are made, and keeps the record so that they can be undone; store_drop when they were
 * taken back, or never began. */
void store_done(struct store *s, const struct changes *c);
void store_drop(struct store *s);
/* Leaves the journal to the next run. */
void store_leave(struct store *s);

/* Takes over a journal without an owner: it is this store's now, as if store_begin had made it. Returns 1, with the changes; 0 when there
 * is none. Journals that cannot be read are removed: their patches had not begun. */
NODISCARD int store_adopt(struct store *s, struct arena *a, struct changes *ret);

/* Reads the record of the last patch in a directory. Returns 0; -ENOENT when there is none; or another -errno. */
NODISCARD int store_last(struct store *s, struct arena *a, const char *cwd, struct changes *ret);
void store_forget_last(struct store *s, const char *cwd);

/* Returns the directory for records: $XDG_STATE_HOME/farhand/patches, else ~/.local/state/farhand/patches; NULL: neither variable is set. */
NODISCARD const char *store_directory(struct arena *a);

/* journal: a file with the names of unfinished temporary files, so that they can be removed after a crash.
 *
 * Each server has one file in the state directory (fsop/state.h), which it locks until it ends. The next server that starts with
 * the same directory reads the journals that are not locked, removes the files that they name, and then the journals. It
 * removes only regular files whose names have the form that we make.
 *
 * The lock belongs to the open file: a child forked after journal_open that keeps the descriptor keeps the journal locked.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

struct journal;

/* Every temporary file is named JOURNAL_TEMP_PREFIX, 32 random hexadecimal digits and JOURNAL_TEMP_SUFFIX. */
#define JOURNAL_TEMP_PREFIX ".farhand-"
#define JOURNAL_TEMP_SUFFIX ".tmp"
#define JOURNAL_TEMP_RANDOM 32
#define JOURNAL_TEMP_BYTES \
        (sizeof(JOURNAL_TEMP_PREFIX) - 1 + JOURNAL_TEMP_RANDOM + sizeof(JOURNAL_TEMP_SUFFIX))

/* How many names a journal holds. Beyond: journal_add returns -EAGAIN, and the name is not recorded. */
#define JOURNAL_SLOTS 1024
/* How many entries of the state directory a starting server looks at, to find journals of dead servers. */
#define JOURNAL_SWEEP_MAX 4096

void journal_temp_name(char ret[JOURNAL_TEMP_BYTES]);
NODISCARD bool journal_is_temp_name(const char *name);

/* Makes a journal in `state_dir`. When that is NULL, the first of the usual places (fsop/state.h) that can be used is taken; if
 * that is not the first of them, the result is 0 all the same, and err says why the first could not be used. When no journal can
 * be made, *ret is NULL and the result is -errno: writes then go on without a journal. */
NODISCARD int journal_open(const char *state_dir, struct journal **ret, struct err *err);
struct journal *journal_close(struct journal *j); /* removes the file when nothing is pending; NULL is fine */

/* Removes the temporary files of dead servers. Blocks as long as their file systems do; any thread may call it, once. Names that
 * are not those of temporary files are passed to `other`, which returns false when a later start must see them again. */
typedef bool journal_other(void *arg, const char *directory, const char *name);
void journal_sweep(const struct journal *j, journal_other *other, void *arg);

/* For an fs helper, which cannot reach the file of the journal: functions that send its records to the server. */
struct journal_remote {
        int (*add)(void *arg, const char *directory, const char *name);
        void (*remove)(void *arg, int slot);
        void *arg;
};
NODISCARD struct journal *journal_new_remote(const struct journal_remote *remote);

/* Removes a temporary file whose process has died, and its record. */
void journal_clean(struct journal *j, int slot, const char *directory, const char *name);

/* Records a temporary file. Any thread may call it. `directory` must be absolute and without links, or a sweep will not find the
 * file. Returns the number of the slot, or -errno: the caller then goes on without a record. */
NODISCARD int journal_add(struct journal *j, const char *directory, const char *name);
void journal_remove(struct journal *j, int slot);

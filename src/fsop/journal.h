/* journal: the names of temporary files that are not finished, kept where a crash does not reach.
 *
 * One file per server in the state directory ($XDG_STATE_HOME/farhand, else ~/.local/state/farhand; as root
 * /var/lib/farhand), locked for its life. The next start removes what journals without an owner name, and then them.
 * Only names of our own making are ever removed here, and only regular files.
 *
 * The lock is the open file's: a child forked after journal_open that keeps the descriptor keeps the journal alive.
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

#define JOURNAL_SLOTS 1024 /* names at a time; beyond, journal_add is -EAGAIN and the write goes on unnamed */
#define JOURNAL_SWEEP_MAX 4096 /* journals of dead servers that one start looks at */

void journal_temp_name(char ret[JOURNAL_TEMP_BYTES]);
NODISCARD bool journal_is_temp_name(const char *name);

/* The place above. -ENOENT when neither variable is set, with err. `ret`: PATH_MAX. */
NODISCARD int journal_directory(char *ret, struct err *err);

/* `state_dir` NULL: the place above. When no journal can be kept *ret is NULL and the return value says why: writes then go
 * on without. */
NODISCARD int journal_open(const char *state_dir, struct journal **ret, struct err *err);
struct journal *journal_close(struct journal *j); /* removes the file when nothing is pending; NULL is fine */

/* Removes what dead servers left. Blocks as long as the file systems do on which that is; from any thread, once. Names
 * that are not of a temporary file are given to `other`, which knows what they are, or not. */
void journal_sweep(const struct journal *j, void (*other)(const char *directory, const char *name));

/* In a process that cannot reach the file: what it has to say goes to who can. */
struct journal_remote {
        int (*add)(void *arg, const char *directory, const char *name);
        void (*remove)(void *arg, int slot);
        void *arg;
};
NODISCARD struct journal *journal_new_remote(const struct journal_remote *remote);

/* Whose temporary file it was has died: it is removed, and so is its name. */
void journal_clean(struct journal *j, int slot, const char *directory, const char *name);

/* From any thread. `directory`: absolute and without links, or a sweep will not find it. A slot number, or -errno (the
 * caller goes on without). */
NODISCARD int journal_add(struct journal *j, const char *directory, const char *name);
void journal_remove(struct journal *j, int slot);

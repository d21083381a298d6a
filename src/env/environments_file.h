/* environments_file: looks up variables and files for environments_select, and replaces a file environments.toml.
 *
 * Only a name that is not there counts as no file. A file that is replaced has its old content or the new one at every moment, also
 * after a crash; programs that change it hold a lock on its directory meanwhile.
 */
#pragma once

#include "env/environments_select.h"

/* `url` and `name` are --url and --env; NULL: not given. Everything in *ret is in the arena, or belongs to the caller. Returns 0
 * or -errno. */
NODISCARD int environments_load(struct arena *a, const char *url, const char *name, struct environments *ret,
                                struct err *err);

/* Reads the variables. The values are those of the environment, which must not change meanwhile; `cwd` is in the arena. */
void environment_variables_read(struct arena *a, struct environment_variables *ret);

/* Reads a file into the arena. `path` may be NULL. */
void environments_file_read(struct arena *a, const char *path, struct environments_file *ret);

/* Makes the directory of the file, with those above it (mode 0700), and takes the lock. Returns a descriptor, which is to be closed
 * to give the lock back, or -errno. */
NODISCARD int environments_file_lock(const char *path, struct err *err);

/* Replaces the file. A new one gets the mode 0600, an existing one keeps mode and owner; a symlink stays and the file that it leads
 * to is replaced. The caller holds the lock. Returns 0 or -errno; then the file is as it was. */
NODISCARD int environments_file_replace(const char *path, struct slice text, struct err *err);

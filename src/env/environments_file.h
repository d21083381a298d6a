/* environments_file: looks up variables and files for environments_select, and replaces a file environments.toml.
 *
 * Only a path that does not exist counts as no file; every other failure is an error. A file that is replaced has its old content
 * or the new content at every moment, also after a crash. A program that changes the file holds a lock on the directory of the file
 * meanwhile.
 */
#pragma once

#include "env/environments_select.h"

/* Finds the environments of this machine, from the options --url (`url`) and --env (`name`), which are NULL when not given, from
 * variables and from files. The texts of *ret are in the arena, or are those that the caller gave. Returns 0 or -errno. */
NODISCARD int environments_load(struct arena *a, const char *url, const char *name, struct environments *ret,
                                struct err *err);

/* Reads the variables. The values point into the variables of this process, which must not change while *ret is used; `cwd` is in
 * the arena. */
void environment_variables_read(struct arena *a, struct environment_variables *ret);

/* Reads a file into the arena. `path` may be NULL: then *ret says that there is no file. */
void environments_file_read(struct arena *a, const char *path, struct environments_file *ret);

/* Makes the directory of the file and the directories above that do not exist (mode 0700), and locks the directory. Returns a
 * descriptor, or -errno. To close the descriptor gives the lock back. */
NODISCARD int environments_file_lock(const char *path, struct err *err);

/* Replaces the file. A new file gets the mode 0600; a file that exists keeps its mode and owner; a symlink stays, and the file that
 * the symlink leads to is replaced. The caller holds the lock. Returns 0 or -errno; after an error the file is as it was. */
NODISCARD int environments_file_replace(const char *path, struct slice text, struct err *err);

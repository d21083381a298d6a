/* environments_file: looks up variables and files for environments_select. Only a path that does not exist counts as no file; every
 * other failure is an error. */
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

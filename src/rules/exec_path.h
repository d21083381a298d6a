/* exec_path: paths of programs, without looking at files. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/* Returns the absolute path, in the arena, without `.`, `..` and repeated slashes; a relative path begins at `cwd`. Without a cwd a
 * relative path gives a slice with p == NULL. */
NODISCARD struct slice exec_path_absolute(struct arena *a, const char *cwd, struct slice path);

/* Returns the last component of a path that exec_path_absolute made; empty for the root directory. */
NODISCARD struct slice exec_path_base(struct slice path);

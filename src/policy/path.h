/* path: compares, splits and joins absolute paths by their text. Nothing here looks at the disk. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/* Is `path` equal to `above`, or below it? Compares whole components: `/ab` is not below `/a`. */
NODISCARD bool path_is_within(struct slice path, struct slice above);
/* Compares bytes, with `/` before all others, so that paths below a directory follow it directly. */
NODISCARD int path_compare(struct slice a, struct slice b);
/* Returns the parent directory; the parent of `/` is `/`. */
NODISCARD struct slice path_parent(struct slice path);
/* Returns the last component, which is empty for `/`. A text without a slash is a component itself. */
NODISCARD struct slice path_name(struct slice path);
NODISCARD struct slice path_join(struct arena *a, struct slice directory, struct slice name);

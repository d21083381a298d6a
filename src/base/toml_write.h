/* toml_write: selects parts of a parsed TOML file and writes them as TOML. Pure.
 *
 * Comments and layout are lost; keys and values stay the same. */
#pragma once

#include "base/buf.h"
#include "base/toml.h"

/* A way to a member: the keys from the root on, at least one. */
struct toml_path {
        const struct slice *keys;
        size_t count;
};

/* Returns a table in the arena with the members of `root` that the paths name; their values are shared with `root`. NULL when no
 * path names an existing member. A path that continues below a value that is not a table selects that value. */
NODISCARD const struct toml *toml_select(struct arena *a, const struct toml *root,
                                         const struct toml_path *paths, size_t count);

/* Appends the table to `out`. Returns 0, or -ENOBUFS when `out` has no room; what was appended is then incomplete. */
NODISCARD int toml_write(struct buf *out, const struct toml *table);

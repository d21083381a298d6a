/* list: lists the names in an open directory, for the modules of this folder. */
#pragma once

#include "fsop/meta.h"

struct listing {
        struct fs_entry *entries; /* sorted by bytes; in the arena, with their names */
        size_t count;
        size_t total; /* how many names there were; more than `count` when `keep` was less */
};

/* Lists the first `keep` names of the directory `dirfd`, without `.`, `..` and broken links. `keep`, not the directory, bounds the
 * memory. Returns 0 or -errno. */
NODISCARD int list_read(struct arena *a, int dirfd, size_t keep, struct listing *ret);
/* Lists as list_read does, but only names that sort behind `after` (p == NULL: all). Links are listed as links, broken ones too: is_symlink is set, and
 * neither is_directory nor is_file. */
NODISCARD int list_read_links(struct arena *a, int dirfd, struct slice after, size_t keep,
                              struct listing *ret);

/* list: the names in a directory, for those of this folder that have it open. */
#pragma once

#include "fsop/meta.h"

struct listing {
        struct fs_entry *entries; /* sorted by bytes; in the arena, with their names */
        size_t count;
        size_t total; /* how many there were; more than `count` when `keep` was less */
};

/* The first `keep` names of what `dirfd` is a directory of, without `.` and `..` and broken links. Memory is bounded by
 * `keep`, not by the directory. -errno. */
NODISCARD int list_read(struct arena *a, int dirfd, size_t keep, struct listing *ret);

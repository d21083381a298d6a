/* content: copies the bytes of one regular file to another, by the cheapest means that the two file systems have. */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

/* What the first files of a copy have shown about the file systems, so that later files need not try again. */
struct content_ways {
        bool has_no_clone, has_no_range;
        char *chunk; /* CONTENT_CHUNK_BYTES of memory, allocated when first needed; the owner frees the memory */
};
#define CONTENT_CHUNK_BYTES ((size_t)128 * 1024)

/* Copies as many bytes as `st` says that `from` has, or up to the end when `st` says 0 (as files of /proc do). Both files are at
 * their beginning. `is_fresh`: `to` was empty, so that blocks can be shared and holes left out. *ret_bytes is how much was
 * copied, also on failure. Returns 0 or -errno. */
NODISCARD int content_copy(int from, const struct stat *st, int to, bool is_fresh, struct content_ways *ways,
                           uint64_t *ret_bytes);

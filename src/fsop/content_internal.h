/* content: bytes from one regular file to another, by the cheapest means that the two file systems have. */
#pragma once

#include "base/compat.h"

#include <sys/stat.h>

/* What the first files of a copy taught, so that later ones need not ask again. */
struct content_ways {
        bool has_no_clone, has_no_range;
        char *chunk; /* CONTENT_CHUNK_BYTES, made when it is needed; the owner frees it */
};
#define CONTENT_CHUNK_BYTES ((size_t)128 * 1024)

/* As much as `st` says that `from` has (all of it when that is nothing: /proc), from its beginning to where `to` is, which
 * is its beginning too. `is_fresh`: `to` was empty, so that blocks can be shared and holes left out. *ret_bytes is what
 * went over, also on failure. -errno. */
NODISCARD int content_copy(int from, const struct stat *st, int to, bool is_fresh, struct content_ways *ways,
                           uint64_t *ret_bytes);

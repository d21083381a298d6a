/* verify_internal: what verify.c, which checks each operation of the plan, and verify_table.c, which checks each mount of
 * the view, share. */
#pragma once

#include "sandbox/verify.h"

/* What verify_find finds out about an open file. */
struct verify_found {
        struct statx st;
        bool is_mount, is_read_only, is_memory;
        uint64_t attributes; /* of its mount, as SYS_ATTR_ bits; statfs(2) has the same bits */
};
NODISCARD int verify_find(int fd, struct verify_found *ret);

/* Checks every mount of the view. Returns 0 or -errno; -EPROTO when a mount is not in the plan, or has other attributes than in the
 * plan. */
NODISCARD int verify_table(const struct image *i, int root);

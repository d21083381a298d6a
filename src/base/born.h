/* born: the birth time of a file, which tells it from one that was made later and got its inode number. */
#pragma once

#include "base/compat.h"

#include <stdint.h>
#include <sys/stat.h>

/* Returns the birth time in nanoseconds of what statx was asked about with STATX_BTIME; 0: the file system has none. */
static inline uint64_t statx_born(const struct statx *st)
{
        if (!(st->stx_mask & STATX_BTIME))
                return 0;
        return (uint64_t)st->stx_btime.tv_sec * 1000000000 + st->stx_btime.tv_nsec;
}

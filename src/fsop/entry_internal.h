/* entry: a name in a directory that is held open, so that what is done to it is done there, wherever the path leads by
 * then. */
#pragma once

#include "base/fd.h"
#include "fsop/fsop.h"

#include <limits.h>

struct entry {
        int dirfd; /* O_PATH */
        char name[NAME_MAX + 1];
};
#define ENTRY_INIT ((struct entry){ .dirfd = -1 })

static inline void entry_release(struct entry *e)
{
        e->dirfd = fd_close(e->dirfd);
}
#define _entry_ CLEANUP(entry_release)

/* fsop_open_parent with the name as a string. */
NODISCARD int entry_open(const char *path, bool follow, struct entry *ret);

/* True for a path without a last name: "/", or one that ends in "." or "..". */
bool entry_is_unnamed(const char *path);

/* Takes away a file that was made under a name, when it still is what `fd` has open: by now it may be another's. */
void entry_unmake(int dirfd, const char *name, int fd);

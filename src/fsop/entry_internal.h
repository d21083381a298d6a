/* entry: a name in a directory that is held open, so that all calls on the name act in that directory, even if the path leads
 * elsewhere by then. */
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

/* Like fsop_open_parent, but copies the name as a string. Returns 0 or -errno. */
NODISCARD int entry_open(const char *path, bool follow, struct entry *ret);

/* Returns true for a path without a last name: "/", or one that ends in "." or "..". */
static inline bool entry_is_unnamed(const char *path)
{
        return fsop_last_name(path).n == 0;
}

/* Checks whether a file with a name in `dirfd` may be changed; `st` is its stat. Returns 0, -EPERM as in fsop_open_to_change, or
 * another -errno. */
NODISCARD int entry_check_change(int dirfd, const struct stat *st);
/* Removes a file that was made under a name, if the name still means the file that `fd` has open. */
void entry_unmake(int dirfd, const char *name, int fd);

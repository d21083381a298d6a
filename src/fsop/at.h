/* at: the system's calls on names, for everything in this folder that a client's path leads to: under the law of this
 * process, where it has one (law.h). As the system's calls: -1 and errno. */
#pragma once

#include "fsop/law.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline int at_result(int r)
{
        if (r >= 0)
                return r;
        errno = -r;
        return -1;
}

static inline int at_open(int dirfd, const char *path, int flags, mode_t mode)
{
        if (!law_is_in_force())
                return openat(dirfd, path, flags, mode);
        return at_result(law_open(dirfd, path, flags, mode, flags & O_NOFOLLOW ? LAW_NOT_LAST : LAW_FOLLOW));
}

static inline int at_stat(int dirfd, const char *path, struct stat *ret, int flags)
{
        return law_is_in_force() ? at_result(law_stat(dirfd, path, ret, flags))
                                 : fstatat(dirfd, path, ret, flags);
}

static inline int at_mkdir(int dirfd, const char *path, mode_t mode)
{
        return law_is_in_force() ? at_result(law_mkdir(dirfd, path, mode)) : mkdirat(dirfd, path, mode);
}

static inline int at_unlink(int dirfd, const char *path, int flags)
{
        return law_is_in_force() ? at_result(law_unlink(dirfd, path, flags)) : unlinkat(dirfd, path, flags);
}

static inline int at_rename(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
        if (law_is_in_force())
                return at_result(law_rename(from_dirfd, from, to_dirfd, to, flags));
        return flags ? renameat2(from_dirfd, from, to_dirfd, to, flags)
                     : renameat(from_dirfd, from, to_dirfd, to);
}

static inline int at_link(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
        return law_is_in_force() ? at_result(law_link(from_dirfd, from, to_dirfd, to))
                                 : linkat(from_dirfd, from, to_dirfd, to, 0);
}

static inline int at_symlink(const char *text, int dirfd, const char *path)
{
        return law_is_in_force() ? at_result(law_symlink(text, dirfd, path)) : symlinkat(text, dirfd, path);
}

static inline ssize_t at_readlink(int dirfd, const char *path, char *ret, size_t n)
{
        if (!law_is_in_force())
                return readlinkat(dirfd, path, ret, n);
        ssize_t got = law_readlink(dirfd, path, ret, n);
        if (got < 0)
                errno = (int)-got;
        return got < 0 ? -1 : got;
}

/* realpath: NULL and errno. */
static inline char *at_real(const char *path)
{
        char *real = NULL;
        if (!law_is_in_force())
                return realpath(path, NULL);
        return at_result(law_real(path, &real)) < 0 ? NULL : real;
}

/* Why something cannot be made at `path`: for what its parent's absence means under a law. */
static inline int at_new_error(const char *path, int r)
{
        return r == -ENOENT && law_is_in_force() && law_is_in_cover(path) ? -EROFS : r;
}

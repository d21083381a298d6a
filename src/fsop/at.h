/* at: openat, unlinkat and the other system calls on names, for paths that a client named. In a process that has a reach
 * (reach.h) the calls obey it. They fail as the system calls do: with -1 and errno. */
#pragma once

#include "base/fd.h"
#include "fsop/wary.h"
#include "reach/reach.h"

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
        bool reads = (flags & (O_ACCMODE | O_CREAT | O_PATH | O_DIRECTORY)) == O_RDONLY;
        if (!reach_is_limited() && reads && wary_is_set())
                return at_result(fd_open_looking(dirfd, path, flags));
        if (!reach_is_limited())
                return openat(dirfd, path, flags, mode);
        return at_result(
                reach_open(dirfd, path, flags, mode, flags & O_NOFOLLOW ? REACH_NOT_LAST : REACH_FOLLOW));
}

static inline int at_stat(int dirfd, const char *path, struct stat *ret, int flags)
{
        return reach_is_limited() ? at_result(reach_stat(dirfd, path, ret, flags))
                                  : fstatat(dirfd, path, ret, flags);
}

static inline int at_statx(int dirfd, const char *path, struct statx *ret, int flags, unsigned mask)
{
        return reach_is_limited() ? at_result(reach_statx(dirfd, path, ret, flags, mask))
                                  : statx(dirfd, path, flags, mask, ret);
}

static inline int at_mkdir(int dirfd, const char *path, mode_t mode)
{
        return reach_is_limited() ? at_result(reach_mkdir(dirfd, path, mode)) : mkdirat(dirfd, path, mode);
}

static inline int at_unlink(int dirfd, const char *path, int flags)
{
        return reach_is_limited() ? at_result(reach_unlink(dirfd, path, flags))
                                  : unlinkat(dirfd, path, flags);
}

static inline int at_rename(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags)
{
        if (reach_is_limited())
                return at_result(reach_rename(from_dirfd, from, to_dirfd, to, flags));
        return flags ? renameat2(from_dirfd, from, to_dirfd, to, flags)
                     : renameat(from_dirfd, from, to_dirfd, to);
}

static inline int at_link(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
        return reach_is_limited() ? at_result(reach_link(from_dirfd, from, to_dirfd, to))
                                  : linkat(from_dirfd, from, to_dirfd, to, 0);
}

static inline int at_symlink(const char *text, int dirfd, const char *path)
{
        return reach_is_limited() ? at_result(reach_symlink(text, dirfd, path))
                                  : symlinkat(text, dirfd, path);
}

static inline ssize_t at_readlink(int dirfd, const char *path, char *ret, size_t n)
{
        if (!reach_is_limited())
                return readlinkat(dirfd, path, ret, n);
        ssize_t got = reach_readlink(dirfd, path, ret, n);
        if (got < 0)
                errno = (int)-got;
        return got < 0 ? -1 : got;
}

/* May the file be read (R_OK) or written (W_OK)? EISDIR for a directory, which nobody can write. Without `follow` the name is no link. */
static inline int at_access(int dirfd, const char *path, int mode, bool follow)
{
        struct stat st;
        if (reach_is_limited())
                return at_result(reach_access(dirfd, path, mode, follow));
        if ((mode & W_OK) && fstatat(dirfd, path, &st, 0) == 0 && S_ISDIR(st.st_mode))
                return at_result(-EISDIR);
        return at_result(fd_access(dirfd, path, mode));
}

/* Asks the rules alone (reach_check_name). Returns 0, also where there are none, or -errno. */
static inline int at_check_name(int dirfd, const char *path, enum reach_deed deed)
{
        return reach_is_limited() ? reach_check_name(dirfd, path, deed) : 0;
}

/* Like realpath(3): a path that the caller frees, or NULL with errno set. */
static inline char *at_real(const char *path)
{
        char *real = NULL;
        if (!reach_is_limited())
                return realpath(path, NULL);
        return at_result(reach_real(path, &real)) < 0 ? NULL : real;
}

/* Returns the error for a client after `path` could not be made because of `r`: -EROFS instead of -ENOENT where the reach forbids
 * to create the parent of `path`. */
static inline int at_new_error(const char *path, int r)
{
        return r == -ENOENT && reach_is_limited() && reach_is_in_cover(path) ? -EROFS : r;
}

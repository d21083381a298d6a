/* reach: which files this process may read and write, by their real paths: the sandbox of file requests.
 *
 * An fs helper, which serves the file requests of a permission profile, has a reach. The server has none: there only the kernel
 * decides. The points of a reach are the paths at which the sandbox of a command has mounts, and a call gets the error that
 * such a mount would give: EROFS where files may only be read, EACCES where nothing is allowed, EBUSY for a point itself. So a
 * command and a file request have the same rights. But a reach is evaluated anew for each call, needs nothing on the disk, and
 * applies patterns also to names that do not exist yet.
 *
 * A path is followed name by name, and links by their text, so that nothing denied is passed on the way. At the end the kernel
 * is asked where the directory is now; if it was moved meanwhile, the path is followed again. The functions resemble the
 * system calls of the same names, but return -errno.
 */
#pragma once

#include "base/slice.h"

#include <sys/stat.h>
#include <sys/types.h>

enum reach_kind {
        REACH_READ,
        REACH_WRITE,
        REACH_HIDE,  /* all access is denied; as the root of a reach: what no point covers looks missing */
        REACH_PASS,  /* a directory on the way to points: it cannot be listed, its other names look missing */
        REACH_COVER, /* must not be created: looks like an empty file or directory, and cannot be written */
};

struct reach_point {
        struct slice path; /* absolute, without links */
        enum reach_kind kind;
        bool is_directory;
};

struct reach {
        enum reach_kind root;             /* applies to paths that have no point at or above them */
        const struct reach_point *points; /* sorted by bytes, no two paths are equal */
        size_t count;
        /* Returns whether a pattern denies the path itself; NULL: there are no patterns. */
        bool (*is_denied)(void *arg, struct slice path);
        /* Returns whether a pattern may deny something in the directory `path`, although no point at or above it does; a NULL
         * pointer means never. */
        bool (*may_deny_below)(void *arg, struct slice path);
        void *arg;
};

/* Limits the whole process to `reach` until it ends, so `reach` must stay valid. Returns 0, or -errno when /proc cannot be used. */
NODISCARD int reach_limit(const struct reach *reach);
NODISCARD bool reach_is_limited(void);

/* Which symbolic links of a path are followed: all; all but one at the end of the path; or none, so that a path with a link in it
 * is an error. */
enum reach_links { REACH_FOLLOW, REACH_NOT_LAST, REACH_NO_LINKS };
/* The following functions are for a process that has a reach. In a process without one fsop/at.h makes the system calls instead. */
NODISCARD int reach_open(int dirfd, const char *path, int flags, mode_t mode, enum reach_links links);
NODISCARD int reach_stat(int dirfd, const char *path, struct stat *ret, int flags);
NODISCARD int reach_statx(int dirfd, const char *path, struct statx *ret, int flags, unsigned mask);
NODISCARD int reach_mkdir(int dirfd, const char *path, mode_t mode);
NODISCARD int reach_unlink(int dirfd, const char *path, int flags);
NODISCARD int reach_rename(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags);
NODISCARD int reach_link(int from_dirfd, const char *from, int to_dirfd, const char *to);
NODISCARD int reach_symlink(const char *text, int dirfd, const char *path);
NODISCARD ssize_t reach_readlink(int dirfd, const char *path, char *ret, size_t n);
/* Returns whether the path leads into a directory that must not be created. Such a directory looks as if it existed, empty and
 * read-only. */
NODISCARD bool reach_is_in_cover(const char *path);
/* Like realpath(3); the caller frees *ret. */
NODISCARD int reach_real(const char *path, char **ret);
/* Returns 0 when the attributes of the open file `fd` may be changed, else -errno. A process without a reach may call this, too. */
NODISCARD int reach_check_change(int fd);
/* Returns 0 when the open file `fd` may be read or listed, else -errno. A process without a reach may call this, too. */
NODISCARD int reach_check_read(int fd);

/* ---- reach_judge.c: what the rules say about a path, which is absolute and without links: 0 (allowed) or -errno */

void reach_sort(struct reach_point *points, size_t count);
NODISCARD int reach_judge_search(const struct reach *reach, struct slice directory);
NODISCARD int reach_judge_look(const struct reach *reach, struct slice path);
NODISCARD int reach_judge_read(const struct reach *reach, struct slice path);
NODISCARD int reach_judge_write(const struct reach *reach, struct slice path);
/* Checks whether the name may be created. Returns -EEXIST for the path of a struct reach_point, where a command would see a
 * mount. */
NODISCARD int reach_judge_make(const struct reach *reach, struct slice path);
/* Checks whether the name may be removed, renamed or replaced. Returns -EBUSY for the path of a struct reach_point, as for a
 * mount. */
NODISCARD int reach_judge_unmake(const struct reach *reach, struct slice path);
/* Returns -ENOTDIR when the rules make the path look like a file, even if a directory is there; else 0. */
NODISCARD int reach_judge_directory(const struct reach *reach, struct slice path);
NODISCARD bool reach_is_point(const struct reach *reach, struct slice path);
/* Returns whether the path is a directory that must not be created (REACH_COVER). */
NODISCARD bool reach_is_cover(const struct reach *reach, struct slice path);

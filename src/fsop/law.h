/* law: what this process may do to files, by where they really are: the file half of a sandbox.
 *
 * A process that serves the file requests of a permission profile has one. The server has none: there the kernel alone
 * decides. The points of a law are those at which the sandbox of a command has mounts, and it gives the answers that these
 * would give: EROFS where files may only be read, EACCES where nothing may, EBUSY for what is a point itself. So a command
 * and a file request may do the same; but a law is asked anew each time, needs nothing on the disk, and knows patterns
 * also for what does not exist yet.
 *
 * Where a path leads is found out name by name, links by their text, so that nothing denied is passed on the way. At the
 * end the kernel is asked where the directory is by now: what was moved meanwhile is looked up again. Calls have the shape
 * of the system's, but return -errno.
 */
#pragma once

#include "base/slice.h"

#include <sys/stat.h>
#include <sys/types.h>

enum law_kind {
        LAW_READ,
        LAW_WRITE,
        LAW_HIDE,  /* nothing, at it and below it; as the root of a law: it is not there */
        LAW_PASS,  /* cannot be listed, and has only those of its names that are points: the way to these */
        LAW_COVER, /* must not come into being: looks empty, and cannot be written */
};

struct law_point {
        struct slice path; /* absolute, without links */
        enum law_kind kind;
        bool is_directory;
};

struct law {
        enum law_kind root;             /* what holds where no point is */
        const struct law_point *points; /* sorted by bytes, no two alike */
        size_t count;
        bool (*is_denied)(void *arg,
                          struct slice path); /* by a pattern, the path itself; NULL: there are none */
        void *arg;
};

/* From here on, for the whole process. The law must stay where it is. -errno when /proc cannot be used. */
NODISCARD int law_enact(const struct law *law);
NODISCARD bool law_is_in_force(void);

/* What follows is for a process that has a law; fsop/at.h chooses. */
enum law_links { LAW_FOLLOW, LAW_NOT_LAST, LAW_NO_LINKS };
NODISCARD int law_open(int dirfd, const char *path, int flags, mode_t mode, enum law_links links);
NODISCARD int law_stat(int dirfd, const char *path, struct stat *ret, int flags);
NODISCARD int law_mkdir(int dirfd, const char *path, mode_t mode);
NODISCARD int law_unlink(int dirfd, const char *path, int flags);
NODISCARD int law_rename(int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags);
NODISCARD int law_link(int from_dirfd, const char *from, int to_dirfd, const char *to);
NODISCARD int law_symlink(const char *text, int dirfd, const char *path);
NODISCARD ssize_t law_readlink(int dirfd, const char *path, char *ret, size_t n);
/* Does the path lead into a directory that must not come into being? It looks as if it were there, empty and read-only. */
NODISCARD bool law_is_in_cover(const char *path);
/* realpath; *ret is the caller's to free. */
NODISCARD int law_real(const char *path, char **ret);
/* May the attributes of what is open as `fd` be changed, may it be read or listed? */
NODISCARD int law_may_change(int fd);
NODISCARD int law_may_read(int fd);

/* ---- law_judge.c: the answers alone, by path; absolute, without links */

void law_sort(struct law_point *points, size_t count);
NODISCARD int law_judge_search(const struct law *law, struct slice directory);
NODISCARD int law_judge_look(const struct law *law, struct slice path);
NODISCARD int law_judge_read(const struct law *law, struct slice path);
NODISCARD int law_judge_write(const struct law *law, struct slice path);
/* A new name. -EEXIST when it is one that must not come into being. */
NODISCARD int law_judge_make(const struct law *law, struct slice path);
/* A name goes, by removal or rename, or is replaced. -EBUSY for a point. */
NODISCARD int law_judge_unmake(const struct law *law, struct slice path);
/* -ENOTDIR for what is a file by the law, whatever is there. */
NODISCARD int law_judge_directory(const struct law *law, struct slice path);
NODISCARD bool law_is_point(const struct law *law, struct slice path);
/* Is it a directory that must not come into being? */
NODISCARD bool law_is_cover(const struct law *law, struct slice path);

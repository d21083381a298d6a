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

/* The rule of a permission profile that a refusal comes from. */
enum reach_rule {
        REACH_RULE_NO_ENTRY,  /* no entry names the path, and the profile denies what no entry names */
        REACH_RULE_READ_ONLY, /* the profile lets nothing be written */
        REACH_RULE_OUTSIDE,   /* the path may only be read, while other paths may be written */
        REACH_RULE_ENTRY,     /* an entry of the profile */
        REACH_RULE_PROTECTED, /* a protected name in a writable directory, or what such a name points at */
        REACH_RULE_PATTERN,   /* a denied pattern */
        REACH_RULE_OWN, /* the path belongs to the sandbox or to the server, whatever the profile says */
        /* Only in points: */
        REACH_RULE_ABOVE, /* the point leads to others: the rule is that of the nearest point above */
        REACH_RULE_BELOW, /* the point stays where it is because of the first point below, and has the rule of that */
};

struct reach_point {
        struct slice path; /* absolute, without links */
        enum reach_kind kind;
        bool is_directory;
        enum reach_rule rule; /* why the point exists; decides nothing */
};

struct reach {
        enum reach_kind root;             /* applies to paths that have no point at or above them */
        enum reach_rule root_rule;        /* the rule of refusals that come from `root` */
        const struct reach_point *points; /* sorted by bytes, no two paths are equal */
        size_t count;
        /* Returns whether a pattern denies the path itself; NULL: there are no patterns. */
        bool (*is_denied)(void *arg, struct slice path);
        /* Returns whether a pattern may deny something in the directory `path`, although no point at or above it does; a NULL
         * pointer means never. */
        bool (*may_deny_below)(void *arg, struct slice path);
        /* Returns the text of the pattern that denies the path itself; an empty slice when it is denied without a pattern. Needed
         * where is_denied is. */
        struct slice (*denied_by)(void *arg, struct slice path);
        void *arg;
        /* The process has a view of its own: */
        bool has_own_dev;    /* the process has a /dev that lacks most of the machine's devices */
        bool lacks_unlisted; /* paths without a point at or above them are missing in the view */
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

/* What is to be done with a path. */
enum reach_deed {
        REACH_SEARCH, /* to find a name in this directory */
        REACH_LOOK,   /* to learn what is there */
        REACH_GET,    /* to read or list it */
        REACH_PUT,    /* to write to what exists there */
        REACH_MAKE,   /* to create the name; -EEXIST at a point, where a command would see a mount */
        REACH_UNMAKE, /* to remove, rename or replace the name; -EBUSY at a point, as for a mount */
        /* to use it as a directory; -ENOTDIR where the rules make it look like a file, even if a directory is there */
        REACH_AS_DIRECTORY,
};

/* Like faccessat(2): may the file be read (R_OK) or written (W_OK)? -EISDIR for a directory, which nobody can write. Without `follow`
 * the name is no link. Returns -ENOENT when the file is missing and its name may be written. */
NODISCARD int reach_access(int dirfd, const char *path, int mode, bool follow);
/* Returns 0 when the rules allow the deed, else -errno. Asks the rules alone: the names in `path`, which is relative, need not exist,
 * and are taken as they are. None is "." or "..". */
NODISCARD int reach_check_name(int dirfd, const char *path, enum reach_deed deed);

/* ---- reach_judge.c: what the rules say about a path, which is absolute and without links: 0 (allowed) or -errno */

NODISCARD int reach_judge(const struct reach *reach, enum reach_deed deed, struct slice path);

/* Why the rules refuse something. */
struct reach_reason {
        enum reach_rule rule; /* not REACH_RULE_ABOVE and not REACH_RULE_BELOW */
        struct slice entry; /* the path of the entry or of the protected name, or the pattern; empty: none */
};
/* Explains a refusal by reach_judge. Returns false when there is none, or when the error would be the same without the rules. */
NODISCARD bool reach_explain(const struct reach *reach, enum reach_deed deed, struct slice path,
                             struct reach_reason *ret);
/* Explains why a path that the kernel does not find is missing: the rules hide it, or would if it was there. Returns false when they do
 * not. The answer does not depend on what is there on the machine. */
NODISCARD bool reach_explain_missing(const struct reach *reach, struct slice path, struct reach_reason *ret);

void reach_sort(struct reach_point *points, size_t count);
NODISCARD bool reach_is_point(const struct reach *reach, struct slice path);
/* Returns whether the path is a directory that must not be created (REACH_COVER). */
NODISCARD bool reach_is_cover(const struct reach *reach, struct slice path);

/* ---- reach_refusal.c: remembers what the reach of this process refused, so that an answer can say which rule it was.
 *
 * A call that the reach refuses is remembered under its errno, until a call fails with the same errno for another reason. When
 * a request fails with an errno, reach_blame takes what is remembered under it: a refusal that the request has survived is never
 * told. Only a process that has a reach remembers something, and has one thread; in others these functions do nothing. */

enum reach_operation { REACH_OPERATION_READ, REACH_OPERATION_WRITE };

struct reach_refusal {
        enum reach_operation operation;
        struct slice path; /* absolute; what follows the refused directory is as the request spelled it */
        struct reach_reason reason;
};

/* Forgets all refusals, because a request or a part of one begins. `operation` is what the request is about: a call that only looks
 * at a path is a part of that. */
void reach_begin(enum reach_operation operation);
/* Changes what the request is about, and forgets nothing: a copy reads one path and writes another. */
void reach_intend(enum reach_operation operation);

/* A call on a directory has failed with -errno, and the request means a name in it: what is remembered names that. */
void reach_meant_name(int r, struct slice name);
/* Like reach_meant_name, after a call on a temporary name: the request means another name in the same directory. */
void reach_meant_instead(int r, struct slice name);

/* The request, or a part of it, fails with the errno `e`. */
void reach_blame(int e);
/* Gets the refusal because of which the last reach_blame(e) was called. *ret is valid until the next call of reach_blame or
 * reach_begin. Returns false when it was not a refusal. */
NODISCARD bool reach_blamed(int e, struct reach_refusal *ret);

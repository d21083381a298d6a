/* reach_internal: struct spot, a path that was resolved to a name in an open directory. reach_way.c resolves paths, reach.c makes
 * system calls on the names, and reach_refusal.c remembers what was refused. */
#pragma once

#include "base/fd.h"
#include "reach/reach.h"

#include <limits.h>

#define REACH_TRIES_MAX \
        256 /* how often a path is resolved again because directories were moved meanwhile; then -EAGAIN */

/* A name in an open directory, and its absolute path. */
struct spot {
        int dirfd;                      /* O_PATH or better */
        bool is_own;                    /* dirfd is ours to close */
        bool wants_directory;           /* the path ended with a slash */
        enum reach_operation operation; /* what the call is for, to be told when it is refused */
        char name[NAME_MAX + 1];        /* "." for the directory itself */
        char path[PATH_MAX];            /* the absolute path, with the name as its last component */
        size_t n;                       /* length of path */
        size_t dir_n;                   /* length of the part of `path` that names the directory */
};

static inline void spot_release(struct spot *s)
{
        if (s->is_own)
                fd_close(s->dirfd);
        s->is_own = false;
}
#define _spot_ CLEANUP(spot_release)

static inline struct slice spot_path(const struct spot *s)
{
        return slice_from(s->path, s->n);
}

/* Returns the reach of this process, or NULL. */
const struct reach *reach_now(void);

/* Asks the kernel at which path the open file `fd` is now. Returns 0 or -errno. */
NODISCARD int reach_where_is(int fd, char ret[PATH_MAX], size_t *ret_n);
/* Like faccessat(2), for a file that is open, maybe with O_PATH, and is no link. */
NODISCARD int reach_access_fd(int fd, int mode);
/* Resolves `path` as openat(2) would, and checks that the directories on the way may be searched. Returns 0 or -errno; -EAGAIN
 * when directories were moved at every try. */
NODISCARD int reach_locate(int dirfd, const char *path, enum reach_links links,
                           enum reach_operation operation, struct spot *ret);
/* Like reach_locate, for a name in `dirfd`, or several names that need not exist and are not looked up. */
NODISCARD int reach_locate_new(int dirfd, const char *path, struct spot *ret);

/* ---- reach_refusal.c */

/* Returns what the request is about (reach_begin). */
enum reach_operation reach_intended(void);
/* Remembers that a path was refused with -errno. */
void refusal_note(int r, enum reach_operation operation, const struct reach_reason *reason,
                  struct slice path);
/* Ends a call of reach.h: if its error is not a refusal that was noted meanwhile, no earlier refusal is the reason of this error.
 * Returns `r`. */
int refusal_settle(int r);

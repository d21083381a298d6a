/* law_internal: from a path to a name in a directory that is held open. Shared by law_way.c, which finds it, and law.c, which
 * does something to it. */
#pragma once

#include "base/fd.h"
#include "fsop/law.h"

#include <limits.h>

#define LAW_TRIES_MAX 256 /* things move under our hands; then -EAGAIN */

/* A name in a directory, and where that is. */
struct spot {
        int dirfd;               /* O_PATH or better */
        bool is_own;             /* dirfd is ours to close */
        bool wants_directory;    /* there was a slash behind it */
        char name[NAME_MAX + 1]; /* "." for the directory itself */
        char path[PATH_MAX];     /* of the name */
        size_t n;
        size_t dir_n; /* of the directory's path in it */
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

/* The law of this process. */
const struct law *law_now(void);

/* Where what is open as `fd` is at this moment. -errno. */
NODISCARD int law_where_is(int fd, char ret[PATH_MAX], size_t *ret_n);
NODISCARD int law_locate(int dirfd, const char *path, enum law_links links, struct spot *ret);

/* look: what a path of a rule is on this machine now: links followed and remembered, identity taken.
 *
 * Nothing is kept open. What was seen is compared again, by device and inode, when the sandbox is built; a difference
 * refuses the start. A stub of another command (sandbox/stub.h) counts as nothing.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

#include <sys/types.h>

#define LOOK_LINKS_MAX 40 /* as the kernel: then -ELOOP */

struct seen_link {
        struct slice at;   /* the link, in a path without links */
        struct slice text; /* what it says */
};

struct seen {
        struct slice path; /* without links; what does not exist is added as it is named */
        struct slice base; /* the deepest part of it that exists: all of it when `exists` */
        bool exists;
        bool is_directory;
        uint64_t dev, ino; /* of `base` */
        struct seen_link *links;
        size_t link_count;
};

/* `path` is absolute and clean. 0, also when it does not exist; -errno when it cannot be told (-EACCES, -ELOOP, …). */
NODISCARD int look_at(struct arena *a, struct slice path, struct seen *ret);

/* The first name below `base` that does not exist, as a path. Only when !exists. */
NODISCARD struct slice seen_first_missing(const struct seen *s);

/* A small file of a repository, such as `.git` or `commondir`: its first line, without a prefix and blanks. False when it
 * is none, too large, or says nothing. */
NODISCARD bool look_pointer(struct arena *a, struct slice path, struct slice prefix, struct slice *ret);

/* look: finds out what a path of a rule is on this machine now: it follows links and records them, and records the identity
 * of the file.
 *
 * Nothing is kept open. Device and inode are compared again when the sandbox is built; a difference refuses the start. A
 * placeholder of another command (sandbox/placeholder.h) counts as missing.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

#include <sys/types.h>

#define LOOK_LINKS_MAX 40 /* the limit of the kernel; more links are -ELOOP */

struct seen_link {
        struct slice at;   /* the path of the link, without links on the way */
        struct slice text; /* the content of the link */
};

struct seen {
        struct slice path; /* without links; missing components are appended as written */
        struct slice base; /* the deepest part of `path` that exists; all of it when `exists` */
        bool exists;
        bool is_directory;
        bool is_placeholder; /* `exists` is false, and an empty directory at `path` looks like a placeholder */
        bool is_own; /* `base` belongs to the user of the server; after -EACCES: the directory that could not be searched does */
        uint64_t dev, ino; /* the identity of `base` */
        uint64_t born;     /* the birth time of `base` in nanoseconds; 0: the file system tells none */
        /* the number of the mount that `base` is on, as in /proc/self/mountinfo; 0: the kernel does not tell */
        uint64_t mount;
        struct seen_link *links;
        size_t link_count;
};

/* Looks at an absolute path. Returns 0, also when the path does not exist; -errno when that cannot be found out (-EACCES,
 * -ELOOP, …). */
NODISCARD int look_at(struct arena *a, struct slice path, struct seen *ret);

/* Returns the path of the first missing component below s->base. Called only when s->exists is false. */
NODISCARD struct slice seen_first_missing(const struct seen *s);

/* Reads the path that a small file of a repository, such as `.git` or `commondir`, holds after a prefix. Returns 1 with *ret; 0
 * when there is no regular file or it holds no path; -errno when that cannot be found out: -EFBIG, -EAGAIN (a lease, or the
 * file has changed meanwhile), -EBADMSG when programs would read different paths, or an error of the system. Waits a moment for
 * a process that holds a lease on the file. */
NODISCARD int look_pointer(struct arena *a, struct slice path, struct slice prefix, struct slice *ret);

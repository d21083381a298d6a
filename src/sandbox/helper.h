/* helper: a program that the server executes later: one that is installed with it, or one of the system. It is found, checked
 * and opened once.
 *
 * A command may be able to write the directory of the program, such as a build tree in a workspace. So the name is looked up
 * once, and a descriptor is executed: that of a sealed copy in memory, which no process can change, or that of the file. The
 * file is compared with its state when it was opened, and a changed file is refused. Between this comparison and execve the
 * file can still change; only a copy cannot.
 *
 * A program that others may write is refused. The file and every directory above it must belong to root or to the server's
 * user, and no other user may write them; their group may write them only when it is the server's effective group. A sticky
 * directory may be writable by everybody, because no other user can remove or rename files of root or of the server's user
 * there. Where the user namespace of the server has no number for the root of the machine, files of root show the overflow
 * uid, as files of other users do: there that uid counts as root.
 *
 * The libraries that a program loads are not checked.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"

#include <sys/stat.h>

#define HELPER_REMEDY                                                                                   \
        "let the program and the directories above it belong to root or to the server's user, and let " \
        "nobody else write them (chmod go-w); then start the server again"
#define HELPER_REMEDY_CHANGED "start the server again: it executes only what it found at its start"

/* Identifies a file and its content at one time. */
struct helper_mark {
        uint64_t dev, ino, size;
        int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

static inline struct helper_mark helper_mark_of(const struct stat *st)
{
        return (struct helper_mark){ .dev = st->st_dev,
                                     .ino = st->st_ino,
                                     .size = (uint64_t)st->st_size,
                                     .mtime_s = st->st_mtim.tv_sec,
                                     .mtime_ns = st->st_mtim.tv_nsec,
                                     .ctime_s = st->st_ctim.tv_sec,
                                     .ctime_ns = st->st_ctim.tv_nsec };
}

static inline bool helper_mark_eq(const struct helper_mark *a, const struct helper_mark *b)
{
        return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_s == b->mtime_s &&
               a->mtime_ns == b->mtime_ns && a->ctime_s == b->ctime_s && a->ctime_ns == b->ctime_ns;
}

struct helper {
        int file;                /* the file itself, O_PATH; -1: there is none */
        int copy;                /* the sealed copy; -1: there is none */
        struct helper_mark mark; /* the state of the file when it was opened */
};
#define HELPER_NONE ((struct helper){ .file = -1, .copy = -1 })

/* Finds an installed program by its name: in ../libexec/farhand, seen from the directory of this program, or in that
 * directory. Returns 0, or -ENOENT when there is none. `ret` has room for PATH_MAX bytes. */
NODISCARD int helper_find(const char *name, char *ret);

/* Opens the program. `copies`: also makes a copy, where the system can execute one. On failure returns -errno with err, and
 * nothing is left to close. -EPERM, with HELPER_REMEDY: others may write the program. */
NODISCARD int helper_open(const char *path, bool copies, struct helper *ret, struct err *err);
void helper_close(struct helper *h); /* HELPER_NONE is fine; *h is HELPER_NONE afterwards */

/* Returns the descriptor to execute: the copy, or else the file. The helper keeps it open. Returns -ESTALE when the file has
 * changed. */
NODISCARD int helper_fd(const struct helper *h);
/* Closes the copy, because the system does not execute it; from now on the file is executed. */
void helper_drop_copy(struct helper *h);

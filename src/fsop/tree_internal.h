/* tree: a walk over a directory tree by descriptors, for what changes it: remove and copy.
 *
 * Not recursive, so that depth costs no stack, and with at most TREE_OPEN_LEVELS levels open: a level that was closed is
 * found again through ".." and must be the same directory (device and inode), so that nothing that is moved or swapped
 * meanwhile leads out of the tree. A directory is read to its end before the first of its children is entered.
 *
 * Each level has two sides: the directory that is read, and (copy) the one that is written beside it, else -1.
 */
#pragma once

#include "fsop/fsop.h"

#define TREE_OPEN_LEVELS 16
#define TREE_DEPTH_MAX 262144 /* beyond: -ENAMETOOLONG */
#define TREE_PENDING_BYTES \
        (64 * 1024 * 1024) /* names of directories seen and not entered yet; beyond: -ENOBUFS */

struct tree_pair {
        int read, write;
};

enum tree_verdict { TREE_DONE, TREE_DESCEND, TREE_SKIP, TREE_AGAIN };

/* Each returns one of the verdicts, or -errno, which ends the walk. */
struct tree_ops {
        /* An entry; `type` as getdents says. TREE_DESCEND: it is a directory, enter it later. */
        int (*entry)(void *arg, struct tree_pair at, const char *name, unsigned char type);
        /* Opens a child, or TREE_SKIP. */
        int (*enter)(void *arg, struct tree_pair at, const char *name, struct tree_pair *ret);
        /* A child is done, and closed. TREE_AGAIN: it is entered once more. May be NULL. */
        int (*leave)(void *arg, struct tree_pair at, const char *name);
};

/* Walks what is below `root`, whose descriptors stay the caller's; the one to read must be at the beginning. */
NODISCARD int tree_walk(struct tree_pair root, const struct tree_ops *ops, void *arg);

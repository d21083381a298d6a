/* tree: walks over a directory tree by descriptors, for remove and copy, which change what they walk over.
 *
 * The walk is not recursive, so that depth costs no stack, and has at most TREE_OPEN_LEVELS levels open. A level that was closed
 * is opened again through ".." and must be the same directory (device and inode), so that a directory that is moved or swapped
 * meanwhile does not lead out of the tree. A directory is read to its end before the first of its children is entered.
 *
 * Each level has two descriptors: of the directory that is read and, for a copy, of the directory that is written; else -1.
 */
#pragma once

#include "fsop/fsop.h"

#define TREE_OPEN_LEVELS 16
#define TREE_DEPTH_MAX 262144 /* beyond: -ENAMETOOLONG */
#define TREE_PENDING_BYTES \
        (64 * 1024 * 1024) /* names of directories seen and not entered yet; beyond: -ENOBUFS */

struct tree_pair {
        int read, write;
        bool is_new; /* set by `enter`, and passed to the other functions of tree_ops */
};

enum tree_verdict { TREE_DONE, TREE_DESCEND, TREE_SKIP, TREE_AGAIN };

/* What to do with the entries of the tree. Each function returns a verdict, or -errno, which ends the walk. */
struct tree_ops {
        /* Handles an entry; `type` as getdents says. TREE_DESCEND: it is a directory, enter it later. */
        int (*entry)(void *arg, struct tree_pair at, const char *name, unsigned char type);
        /* Opens a child. TREE_SKIP: it is not entered. */
        int (*enter)(void *arg, struct tree_pair at, const char *name, struct tree_pair *ret);
        /* Called when a child is done and still open. May be NULL. */
        int (*filled)(void *arg, struct tree_pair child);
        /* Called when a child is done and closed. TREE_AGAIN: it is entered once more. May be NULL. */
        int (*leave)(void *arg, struct tree_pair at, const char *name);
};

/* Walks what is below `root`. The caller keeps the descriptors of `root`; the offset of root.read must be 0. */
NODISCARD int tree_walk(struct tree_pair root, const struct tree_ops *ops, void *arg);

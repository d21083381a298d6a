/* glob_mounts: what inotify does not tell: which file systems are mounted where, and whether they tell the truth.
 *
 * A mount covers directories without any event of theirs. The kernel says when its table has changed; a digest of the
 * part that concerns a tree says whether that matters.
 */
#pragma once

#include "sandbox/glob_tree_internal.h"

#define GLOB_MOUNTS_BYTES_MAX (4 * 1024 * 1024) /* of the table; beyond: every change matters */

enum glob_mount_kind {
        GLOB_MOUNT_OTHER,   /* somebody else may change it, and no event tells */
        GLOB_MOUNT_LOCAL,   /* every change is made by this machine's kernel */
        GLOB_MOUNT_OVERLAY, /* the same, but a file may change its number */
};

struct glob_mounts {
        int fd; /* /proc/self/mountinfo */
        uint64_t changes;
        struct {
                uint64_t dev;
                enum glob_mount_kind kind;
        } known[8]; /* the newest over the oldest */
        size_t next;
};

NODISCARD int glob_mounts_init(struct glob_mounts *m); /* -errno */
void glob_mounts_release(struct glob_mounts *m);

/* Since it was asked last. */
NODISCARD bool glob_mounts_have_changed(struct glob_mounts *m);
/* Of all that is mounted below the prefixes of the tree. */
NODISCARD uint64_t glob_mounts_digest(struct glob_mounts *m, const struct glob_tree *t);
/* Of the file system `dev`, in which `fd` is. */
NODISCARD enum glob_mount_kind glob_mounts_kind(struct glob_mounts *m, int fd, uint64_t dev);

/* mounts_internal: finds out what inotify does not report: which file systems are mounted where, and whether their events are
 * reliable.
 *
 * A mount covers directories without an event. The kernel reports that the mount table has changed; a digest of the lines
 * that concern a tree tells whether that matters.
 */
#pragma once

#include "glob/tree_internal.h"

/* The longest mount table that is read. When the table is longer, every change of mounts counts as one that matters. */
#define GLOB_MOUNTS_BYTES_MAX (4 * 1024 * 1024)

enum glob_mount_kind {
        GLOB_MOUNT_OTHER,   /* another machine or program may change it without an event */
        GLOB_MOUNT_LOCAL,   /* only the kernel of this machine changes it */
        GLOB_MOUNT_OVERLAY, /* as GLOB_MOUNT_LOCAL, but inode numbers may change */
};

struct glob_mounts {
        int fd;           /* /proc/self/mountinfo */
        uint64_t changes; /* how often the mount table has changed */
        struct {
                uint64_t dev;
                enum glob_mount_kind kind;
        } known[8]; /* the newest replaces the oldest */
        size_t next;
};

NODISCARD int glob_mounts_init(struct glob_mounts *m); /* returns 0 or -errno */
void glob_mounts_release(struct glob_mounts *m);

/* Has the mount table changed since the last call? */
NODISCARD bool glob_mounts_have_changed(struct glob_mounts *m);
/* Returns a digest of the mounts below the prefixes of the tree. */
NODISCARD uint64_t glob_mounts_digest(struct glob_mounts *m, const struct glob_tree *t);
/* Returns the kind of the file system `dev`, which `fd` is on. */
NODISCARD enum glob_mount_kind glob_mounts_kind(struct glob_mounts *m, int fd, uint64_t dev);

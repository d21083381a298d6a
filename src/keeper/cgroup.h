/* cgroup: a cgroup v2 leaf of its own for each command, where one can be made.
 *
 *     the server's cgroup (or its parent, when that was delegated to us) ── farhand-PID ── 1, 2, 3 …
 *
 * A leaf makes the end of a tree certain (cgroup.kill reaches every process in it at once, whatever its parent is) and carries
 * limits of the whole tree where the controllers are available. Everything else works without leaves: on a machine that has no
 * cgroup v2, or does not let us make directories in it, only those limits are missing.
 *
 * We write into directories that we made, and to the subtree_control of a parent that was delegated to us and holds no
 * process. We remove the directories that we made and those that a dead server left, whose processes we kill. Such a directory is known
 * by its name, and by the lock that the processes of its server held on it.
 */
#pragma once

#include "base/buf.h"
#include "base/compat.h"
#include "base/list.h"

#include <sys/types.h>

enum cgroup_controller { CGROUP_MEMORY = 1 << 0, CGROUP_PIDS = 1 << 1 };

#define CGROUP_NAME_BYTES 32

/* The directory farhand-PID of one spawner. */
struct cgroup {
        int base;             /* the directory that contains farhand-PID */
        int home;             /* the directory itself; locked as long as this descriptor is open anywhere */
        uint32_t controllers; /* the controllers that leaves have: enum cgroup_controller */
        uint64_t last;        /* number of the last leaf */
        uint64_t ready;       /* number of a leaf that was made for the next command; 0: none */
        int ready_fd;
        struct list busy; /* leaves that could not be removed yet */
        char name[CGROUP_NAME_BYTES];
};

/* Limits of a tree; 0 = none. */
struct cgroup_limits {
        uint64_t memory_bytes;
        uint64_t processes; /* threads included */
};

/* Makes the directory farhand-PID for the calling process, after killing what is left in stale ones and removing them. Returns 0; or
 * -errno, and sets *ret to CGROUP_CLOSED. */
NODISCARD int cgroup_open(struct cgroup *ret);
/* Removes farhand-PID with those of its leaves that are empty. Does nothing when `c` is CGROUP_CLOSED. */
void cgroup_close(struct cgroup *c);
#define CGROUP_CLOSED ((struct cgroup){ .base = -1, .home = -1, .ready_fd = -1 })

/* Returns which controllers leaves would have, or -errno when no leaf can be made. Makes a farhand-PID and removes it again. */
NODISCARD int cgroup_probe(void);

/* Kills every process that is left in the farhand-PID of a dead spawner. Does nothing while a keeper of that spawner holds the
 * lock. */
void cgroup_reclaim(pid_t pid);

/* Makes a leaf with these limits. The caller closes *ret_fd. Returns 0 or -errno: -ENOTSUP when the controller is missing. */
NODISCARD int cgroup_leaf_add(struct cgroup *c, const struct cgroup_limits *limits, uint64_t *ret_leaf,
                              int *ret_fd);
/* Makes the leaf of the next command, if it can be made. Called when there is time, so that no command waits for it. */
void cgroup_leaf_prepare(struct cgroup *c);
/* Writes limits into an open leaf that has the files for them. */
NODISCARD int cgroup_leaf_limit(int leaf, const struct cgroup_limits *limits);
/* Kills every process in the leaf, which is opened by its name: for a command whose keeper was killed. */
void cgroup_leaf_end(const struct cgroup *c, uint64_t leaf);
/* Removes the leaf, or remembers it for cgroup_tidy. */
void cgroup_leaf_remove(struct cgroup *c, uint64_t leaf);
/* Tries again to remove the leaves that were busy. Returns true when some are left. */
bool cgroup_tidy(struct cgroup *c);

/* Finds the cgroup directory of the calling process (cgroup_path.c) in the texts of /proc/self/cgroup and /proc/self/mountinfo.
 * Appends its path to *ret; *ret_mount is the length of the mount point in that path. Returns 0, or -errno:
 * -ENOENT when the directory cannot be reached. */
NODISCARD int cgroup_path_find(struct slice self, struct slice mountinfo, struct buf *ret, size_t *ret_mount);

/* ---- cgroup_leaf.c: raw system calls only, because a keeper shares its memory with the spawner ---- */

struct leaf_name {
        char text[24];
};
NODISCARD struct leaf_name cgroup_leaf_name(uint64_t leaf);
/* Moves the calling process into the leaf. This is slow; clone3 into the leaf is faster. */
NODISCARD int cgroup_leaf_enter(int leaf);
/* Sends SIGKILL to every process in the leaf. Returns 0 or -errno: -ENOENT before Linux 5.14. */
int cgroup_leaf_kill(int leaf);
/* Returns which limits were met so far: CGROUP_MEMORY when the kernel killed for memory, CGROUP_PIDS when it refused a fork. */
NODISCARD uint32_t cgroup_leaf_events(int leaf);
/* For a keeper whose spawner is dead: kills every process below farhand-PID, removes the leaf, and farhand-PID when no other leaf is left
 * in it. */
void cgroup_leaf_abandon(const struct cgroup *c, uint64_t leaf);

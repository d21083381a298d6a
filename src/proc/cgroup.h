/* cgroup: a cgroup v2 leaf of its own for a command, where one can be made.
 *
 *     the server's cgroup (or its parent, when that was delegated to us) ── farhand-PID ── 1, 2, 3 …
 *
 * A leaf makes the end of a tree certain (cgroup.kill reaches everybody at once, whoever his parent is) and carries
 * limits of the whole tree where the controllers are there. Everything else works without: a machine that has no
 * cgroup v2, or lets us make nothing in it, only cannot have those limits.
 *
 * We write into directories that we made, and to the subtree_control of a parent that was delegated to us and holds no
 * process. We remove what we made and what a dead server of ours left: known by its name, by the lock that its
 * processes held on it, and by being empty, which is all that rmdir takes.
 */
#pragma once

#include "base/buf.h"
#include "base/compat.h"
#include "base/list.h"

#include <sys/types.h>

enum cgroup_controller { CGROUP_MEMORY = 1 << 0, CGROUP_PIDS = 1 << 1 };

#define CGROUP_NAME_BYTES 32

/* farhand-PID, of one spawner. */
struct cgroup {
        int base;             /* the directory that it is in */
        int home;             /* itself; locked by whoever holds this descriptor */
        uint32_t controllers; /* that leaves have: enum cgroup_controller */
        uint64_t last;        /* leaf */
        uint64_t ready;       /* a leaf for the next command; 0: none */
        int ready_fd;
        struct list busy; /* leaves that could not be removed yet */
        char name[CGROUP_NAME_BYTES];
};

/* Limits of a tree; 0 = none. */
struct cgroup_limits {
        uint64_t memory_bytes;
        uint64_t processes; /* threads count */
};

/* Makes farhand-PID for the calling process, after removing what is stale. 0 or -errno; then *ret is closed. */
NODISCARD int cgroup_open(struct cgroup *ret);
/* Removes it with its leaves as far as they are empty. A closed one is fine. */
void cgroup_close(struct cgroup *c);
#define CGROUP_CLOSED ((struct cgroup){ .base = -1, .home = -1, .ready_fd = -1 })

/* Which controllers leaves would have, or -errno when none can be made. Makes a farhand-PID and removes it again. */
NODISCARD int cgroup_probe(void);

/* For the parent of a process that had one open and was killed, and so were all that shared it: kills who is left. */
void cgroup_reclaim(pid_t pid);

/* Makes a leaf with these limits. *ret_fd is the caller's. 0 or -errno: -ENOTSUP when the controller is missing. */
NODISCARD int cgroup_leaf_add(struct cgroup *c, const struct cgroup_limits *limits, uint64_t *ret_leaf,
                              int *ret_fd);
/* Makes the next one ahead, if it can be made: when there is time, so that no command waits for it. */
void cgroup_leaf_prepare(struct cgroup *c);
/* Writes limits into an open leaf that has the files for them. */
NODISCARD int cgroup_leaf_limit(int leaf, const struct cgroup_limits *limits);
/* Kills who is in it, by name: for those whose keeper was killed. */
void cgroup_leaf_end(const struct cgroup *c, uint64_t leaf);
/* Removes it, or remembers it for cgroup_tidy. */
void cgroup_leaf_remove(struct cgroup *c, uint64_t leaf);
/* Tries again. True when some are left. */
bool cgroup_tidy(struct cgroup *c);

/* The directory of the calling process (cgroup_path.c), from the texts of /proc/self/cgroup and /proc/self/mountinfo.
 * *ret_mount is how many bytes of it are the mount point. Appends to *ret; -ENOENT when it cannot be reached. */
NODISCARD int cgroup_path_find(struct slice self, struct slice mountinfo, struct buf *ret, size_t *ret_mount);

/* ---- with raw system calls only: a keeper shares its memory (cgroup_leaf.c) ---- */

/* Moves the calling process. Slow, clone3 is better. */
NODISCARD int cgroup_leaf_enter(int leaf);
/* SIGKILL to everybody in it. -ENOENT before Linux 5.14. */
int cgroup_leaf_kill(int leaf);
/* What was met so far: CGROUP_MEMORY when the kernel killed for memory, CGROUP_PIDS when it refused a fork. */
NODISCARD uint32_t cgroup_leaf_events(int leaf);
/* The spawner is dead, so a keeper removes its own leaf, and the last of them farhand-PID. */
void cgroup_leaf_abandon(const struct cgroup *c, uint64_t leaf);

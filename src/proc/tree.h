/* tree: who is below the calling process, and a signal for all of them.
 *
 * Reads /proc with raw system calls only: the keeper uses it while it shares its memory with the spawner. The caller
 * must be single-threaded. Pids of own children are safe to signal, they stay taken until we reap them; those further
 * down are checked through a pidfd, so that a pid that was used again is never hit.
 */
#pragma once

#include "base/compat.h"

#include <sys/types.h>

/* Calls fn for each child of the calling process that /proc shows. Children that come or go meanwhile may be missed:
 * who wants all must ask again. 0, or -errno when /proc says nothing. */
NODISCARD int tree_each_child(void (*fn)(void *arg, pid_t pid), void *arg);

/* A process that a walk has found. */
struct tree_entry {
        pid_t pid;
        pid_t parent;
};

/* Sends signo to every descendant, at most `cap` in one walk: `room` holds that many, and nothing of it is needed
 * afterwards. With SIGKILL also to the process groups that own children lead: that cannot be outrun by forking. 0 when
 * somebody got it or nobody is there; -errno when all failed. */
int tree_signal(int signo, struct tree_entry *room, size_t cap);

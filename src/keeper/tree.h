/* tree: finds the processes below the calling process, and sends all of them a signal.
 *
 * Reads /proc with raw system calls only: the keeper uses it while it shares its memory with the spawner. The pids of the calling
 * thread's children are safe to signal, because they are not used again before the caller reaps them, and nobody else may. All other
 * processes, also the children of other threads of the caller's process, are checked through a pidfd, so that a pid that was used
 * again is never hit.
 */
#pragma once

#include "base/compat.h"

#include <sys/types.h>

/* Calls fn for each child of the calling thread that /proc shows. Children that come or go meanwhile may be missed: a caller
 * that needs all must call again. Returns 0, or -errno when /proc cannot be read. */
NODISCARD int tree_each_child(void (*fn)(void *arg, pid_t pid), void *arg);

/* A process that a walk has found. */
struct tree_entry {
        pid_t pid;
        pid_t parent;
        bool is_own; /* a child of the calling thread */
};

/* Sends signo to every descendant, at most `cap` in one walk: `room` has space for that many, and is not needed afterwards. SIGKILL
 * is also sent to the process groups that the caller's children lead, which forking cannot escape. Returns 0 when a process got the
 * signal or there is none, or -errno when no process could be signalled. */
int tree_signal(int signo, struct tree_entry *room, size_t cap);

/* Sends SIGKILL once to every descendant of `top`, a child of the caller that has not been reaped. */
void tree_kill_below(pid_t top, struct tree_entry *room, size_t cap);

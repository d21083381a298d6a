/* intercepted: a command whose starts of programs are decided by a broker, seen from its keeper.
 *
 *     keeper ── [init] ── command ── …        each execve below the command waits for the broker
 *      └── broker, a second thread of the keeper
 *
 * Such a keeper is a fork. Its first thread does what every keeper does, with raw system calls only, so that libc belongs to the
 * broker. The keeper is above every process of the command: therefore the broker may look into their memory and trace them without
 * privileges. The two threads end together, and the tree of the command with them.
 *
 * Both threads have children. A thread may reap its own; but the broker traces children of the first thread as well, and the kernel
 * gives what happens to such a process to both. So the first thread looks before it takes (intercepted_reap), and the broker waits
 * for a process that it traces with intercepted_tracee_wait only.
 */
#pragma once

#include "base/urgent.h"
#include "keeper/keeper_shared.h"

/* Makes the broker's thread. The broker takes over the listener and the two descriptors of the order; when no thread can be made they
 * are closed, so that every execve fails. `got` and `before`: the caller's priority (base/urgent.h), which the broker does not
 * inherit. Returns 0 or -errno. */
NODISCARD int intercepted_begin(struct keeper *k, int listener, pid_t root, enum urgent got,
                                const struct urgent_before *before);

/* Reaps a child of the calling thread, as wait4 with WNOHANG. Returns its pid; 0 when no child has ended; -EAGAIN when the
 * caller has to look again soon, because the broker traces a child that has stopped; or -errno: -ECHILD when there is no child. */
NODISCARD pid_t intercepted_reap(int *ret_status, struct rusage *ret_usage);

/* For the broker: waits until a thread that it traces has stopped; `options` may be WNOHANG. Returns its number, and *ret_status as
 * wait4 gives it; 0 with WNOHANG when it runs; -EINTR; or -ECHILD when it has ended. Its parent hears of its end then. */
NODISCARD pid_t intercepted_tracee_wait(pid_t thread, int *ret_status, int options);

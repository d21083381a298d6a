/* peer: decides whether the process that connected to the unix socket is accepted.
 *
 * The peer is the process that called connect(2). It must belong to our user or to root, be alive, and be in our user and
 * pid namespaces, unless the operator allows others. It must never descend from a sandboxed command of ours, because it
 * could start a command without a sandbox. When any of this cannot be found out, the peer is refused.
 *
 * Namespaces are compared by their links in /proc. Where these cannot be read (the peer belongs to root and we do not, or it is
 * not dumpable), the peer must have only one pid, the one that we see, and the same id maps as we have.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"
#include "proc/lineage.h"

#include <sys/types.h>

struct peer {
        pid_t pid; /* 0: the peer is in a pid namespace that we do not see */
        uid_t uid;
};

/* Finds out whether a process descends from a command of ours. `proc_dir` is /proc/PID of that process, as for lineage_find. */
struct peer_judge {
        enum lineage (*lineage)(void *arg, pid_t pid, int proc_dir);
        void *arg;
};

/* Decides about the peer of a unix socket. Returns NULL when it is accepted, otherwise the reason: one of the literals below. */
NODISCARD const char *peer_refuse(int fd, bool allows_other_namespaces, const struct peer_judge *judge,
                                  struct peer *ret);

#define PEER_NO_SOCKET "not-a-unix-peer"
#define PEER_OTHER_USER "another-user"
#define PEER_OTHER_PID_SPACE "another-pid-namespace"
#define PEER_OTHER_USER_SPACE "another-user-namespace"
#define PEER_SANDBOXED "descends-from-a-sandboxed-command"
#define PEER_UNKNOWN "of-unknown-descent"
#define PEER_GONE "gone"           /* the peer has ended */
#define PEER_UNSEEN "not-readable" /* /proc does not show the peer */

/* Returns whether allows_other_namespaces would change a refusal with this reason. */
NODISCARD bool peer_is_allowable(const char *why);

/* Counts the pids in the line NSpid of /proc/PID/status; 0 when there is no such line. Public for tests. */
NODISCARD size_t peer_count_pids(struct slice status);

/* nets: network namespaces for sandboxes, made ahead, and used again when nothing has happened in them.
 *
 * Making and removing a network namespace takes the kernel three times as long as all other parts of a sandbox together. A
 * command without network has a namespace with nothing in it but `lo`, cannot change it, and mostly sends no packet. When the
 * command and all that it left running are gone, and the kernel's counters are what they were in the beginning, then there was
 * no packet and no connection, and no socket can be left: the namespace is as good as new. As a command might still leave
 * something that no counter shows, a used namespace is used again for the same session only. All others are removed.
 *
 * A process (`fh-net`) waits in each namespace, in a user namespace of its own. The init of a sandbox enters both
 * (keeper/sandboxed.c), and makes its own user namespace there. Only the spawner uses this module, not keepers.
 */
#pragma once

#include "base/compat.h"
#include "base/list.h"

#include <sys/types.h>

#define NETS_FREE_MAX 2 /* unused namespaces that are kept for the next commands; more are removed */

struct net;

struct nets {
        struct list all; /* struct net */
        int fence_fd;    /* the fence inside of which the namespaces are made (fence.h); -1: none */
};

/* Returns a namespace that no command has used, or that only commands of that session have used and left as new. NULL: none is
 * ready; a new one is being made, and the spawner gets SPAWNER_LOOK when it is ready. */
NODISCARD struct net *nets_take(struct nets *t, uint64_t session);
/* Returns whether a command of that session may use the namespace. Every session may use one that no command has used. */
NODISCARD bool net_is_for(const struct net *net, uint64_t session);
/* Notes that a command of that session uses the namespace from here on. */
void net_use(struct net *net, uint64_t session);
/* Takes back a namespace that no process uses any more. `is_wanted`: another command will soon need one. `net` may be NULL. */
void nets_give_back(struct nets *t, struct net *net, bool is_wanted);
/* Returns a descriptor to enter the namespace with setns, or -errno. */
NODISCARD int net_open(const struct net *net);

/* Returns how many namespaces are not in use. */
NODISCARD size_t nets_free_count(const struct nets *t);
/* Removes the namespaces that are not in use. */
void nets_drop(struct nets *t);
/* Returns whether `pid` is an fh-net. */
NODISCARD bool nets_have(const struct nets *t, pid_t pid);
/* Forgets a child that was reaped. Returns true when the child was an fh-net. */
bool nets_forget(struct nets *t, pid_t pid);

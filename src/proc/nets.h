/* nets: network namespaces for sandboxes, made ahead, and used again where nothing has happened in them.
 *
 * Making one and taking it down takes the kernel three times as long as all other parts of a sandbox together. A command
 * without network has one with nothing in it but `lo`, may change nothing of it, and mostly sends no packet. When it and all
 * that it left running are gone, and the kernel's counters are what they were in the beginning, then there was no packet
 * and no connection, and no socket can be left: it is as new. So much for what is known; in case that something can be left
 * that no counter tells of, one that a command was in is used again for the same session only. Any other goes.
 *
 * A process (`fh-net`) waits in each, in a user namespace that is its own; who wants to use it enters both (box.c), and makes
 * its own user namespace there. The spawner's: not for keepers.
 */
#pragma once

#include "base/compat.h"
#include "base/list.h"

#include <sys/types.h>

#define NETS_FREE_MAX 2 /* kept for the next commands; more go */

struct net;

struct nets {
        struct list all; /* struct net */
};

void nets_init(struct nets *t);
/* One that is ready, and new or as new; NULL: then one is being made, and tells by SPAWNER_LOOK when it is there. */
NODISCARD struct net *nets_take(struct nets *t, uint64_t whose);
/* One that nobody was in is for everybody. */
NODISCARD bool net_is_for(const struct net *net, uint64_t whose);
/* Somebody is in it from here on. */
void net_use(struct net *net, uint64_t whose);
/* Nobody is in it any more. `is_wanted`: somebody else will be soon. NULL is fine. */
void nets_give_back(struct nets *t, struct net *net, bool is_wanted);
/* To enter it by (setns), or -errno. */
NODISCARD int net_open(const struct net *net);

NODISCARD bool nets_are_free(const struct nets *t);
/* Ends those that nobody has. */
void nets_drop(struct nets *t);
NODISCARD bool nets_have(const struct nets *t, pid_t pid);
/* It was reaped: whether it was one. */
bool nets_forget(struct nets *t, pid_t pid);

/* inlets_make: the keeper has the inlets of its command made, and sends them (inlets.h). Raw system calls only. */
#pragma once

#include "base/compat.h"

#include <sys/types.h>

struct keeper;

/* Makes the inlets of the keeper's order and sends them over the order's socket, which is closed then. `user` and `net`: what a
 * process enters with setns to get into the network with all capabilities, each a namespace or a pidfd; `user` is -1 when no user
 * namespace is to be entered. `is_up`: lo has been brought up, and whoever did so has finished; its flag alone is set earlier than its
 * addresses. Returns 0, or -errno, and then no socket is left. */
NODISCARD int inlets_make(struct keeper *k, int user, int net, bool is_up);
/* As inlets_make, for the network of the init, which is a child of the keeper. It has not confined itself yet: the kernel lets
 * nobody else enter the namespaces of a process that did. */
NODISCARD int inlets_make_in(struct keeper *k, pid_t init);
/* Closes the socket of the order, if it is open. */
void inlets_disconnect(struct keeper *k);

/* inlet_sockets: takes the inlets of a command from the socket on which its keeper sends them (keeper/inlets.h). Knows no loop: the
 * caller watches its end of the socket, and the report of a start may come before or after them. */
#pragma once

#include "keeper/inlets.h"

/* Takes the sockets, in the order of `inlets`. Never sleeps. Returns 0, and *ret_fds are the caller's; -EAGAIN: they were not sent
 * yet; -EPIPE: the start has failed, and they will not come; -EMFILE: the caller has no room for descriptors; or another -errno. On
 * failure the caller has none of them. */
NODISCARD int inlet_sockets_take(int socket, const struct inlets *inlets, int ret_fds[static INLETS_MAX]);

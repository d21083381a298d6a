/* networks: the networks that the server has told of, their listeners, and its messages about them. */
#pragma once

#include "egress/network.h"

#include <sys/socket.h>

struct networks {
        struct egress *egress;
        struct list all; /* network::link */
};

void networks_init(struct networks *ns, struct egress *e);
void networks_release(struct networks *ns);

/* Takes a message of the server. Descriptors that are used become -1. Returns 0, or -errno when the message breaks the rules. */
NODISCARD int networks_take(struct networks *ns, struct slice message, int fds[], size_t fd_count);
/* Accepts again where it was paused, as far as there is room now. */
void networks_resume(struct networks *ns);

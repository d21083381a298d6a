/* connection: one client of a listener, from its first byte to its last. */
#pragma once

#include "egress/network.h"

enum listener_kind { LISTENER_HTTP, LISTENER_SOCKS };

/* Serves an accepted socket, which is the connection's. */
void connection_start(struct network *n, enum listener_kind kind, int fd,
                      const struct sockaddr_storage *client);

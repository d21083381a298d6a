/* relay: the far end of a connection through ssh. */
#pragma once

#include "cli/remote.h"

/* Passes bytes from stdin to the background server, which is started when there is none, and from the server to stdout. The peer, which
 * has started us by ssh, speaks WebSocket with the server through us. When the server ends before it has said anything, another one gets
 * what the peer has said. Returns an exit code. */
int relay_stdio(struct remote *r);

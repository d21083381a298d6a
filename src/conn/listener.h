/* listener: the socket that clients connect to, TCP or unix, and the decision which peers are accepted.
 *
 * TCP: one literal address; TCP_NODELAY and TCP_USER_TIMEOUT on every connection. Unix: mode 0600, and the peer must be
 * a process of our own user or of root, and pass the checks of peer.h. The socket file of a dead server is replaced, that of a
 * running server is not.
 */
#pragma once

#include "base/err.h"
#include "conn/conns.h"

struct listener;

NODISCARD struct listener *listener_new(struct conns *s, const struct listen_url *url, struct err *err);
struct listener *listener_free(struct listener *l); /* closes and removes the socket file; NULL is fine */

const char *listener_url(const struct listener *l); /* the bound address, as the server prints it */

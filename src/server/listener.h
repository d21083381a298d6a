/* listener: the socket that clients reach, TCP or unix, and who may come in.
 *
 * TCP: one literal address; TCP_NODELAY and TCP_USER_TIMEOUT on every connection. Unix: mode 0600, and the peer must be
 * our own user or root; the file of a dead server is replaced, that of a living one is not.
 */
#pragma once

#include "base/err.h"
#include "server/server.h"

struct listener;

NODISCARD struct listener *listener_new(struct server *s, const struct listen_url *url, struct err *err);
struct listener *listener_free(struct listener *l); /* closes, removes the socket file; NULL is fine */

const char *listener_url(const struct listener *l); /* the bound address, as printed */

/* httpd: one connection of a listener while it speaks HTTP: before its upgrade to a WebSocket, or without one.
 *
 * Reads one request head at a time under a deadline and a size limit, finds the route, and answers or hands the socket
 * over to a conn.
 */
#pragma once

#include "conn/conns.h"
#include "wire/http.h"

/* Serves the socket `fd` and takes it over. `peer` is an address for errors and logs. */
void httpd_new(struct conns *s, int fd, const char *peer);
/* Returns the time until the oldest HTTP connection may be dropped for a new one; 0 when it may be dropped now. There must be an
 * HTTP connection. */
NODISCARD uint64_t httpd_oldest_wait_ms(const struct conns *s);
void httpd_drop_oldest(struct conns *s);
void httpd_drop_all(struct conns *s);

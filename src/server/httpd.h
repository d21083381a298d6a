/* httpd: the HTTP side of a listener: one connection before (or without) its upgrade.
 *
 * Reads one request head at a time under a deadline and a size limit, finds the route, and answers or hands the socket
 * over. Routes are a table, so that one with a body or an event stream can be added beside the upgrade.
 */
#pragma once

#include "server/server.h"
#include "wire/http.h"

/* Takes the descriptor. `peer` is an address for errors and logs. */
void httpd_new(struct server *s, int fd, const char *peer);
void httpd_drop_all(struct server *s);

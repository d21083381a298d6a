/* drain: ends the server in good order.
 *
 * No new sessions are made. Running processes get the grace period and are killed after it. When no process is left, clients are
 * told that the server goes away, and the loop stops.
 */
#pragma once

struct server;

/* Begins the drain. Called a second time, it ends the grace period. */
void server_drain(struct server *s);

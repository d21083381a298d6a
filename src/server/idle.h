/* idle: ends a server that nobody has used for a while, for servers that are started on demand. */
#pragma once

struct server;

/* Begins to look for sessions, when the configuration sets a time after which an unused server ends. */
void idle_begin(struct server *s);

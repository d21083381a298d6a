/* idle: ends a server that nobody has used for a while, for servers that are started on demand. */
#pragma once

struct server;

/* Begins to watch, when the configuration says so. */
void idle_begin(struct server *s);

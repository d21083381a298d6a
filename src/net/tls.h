/* tls: the TLS end of a client's connection: bytes from stdin go to the server, those of the server to stdout. */
#pragma once

/* Connects to a server and carries bytes until one side closes. What goes wrong before that is answered as HTTP, with a status of its
 * own (wire/tls_status.h) and the reason as its body. Returns the exit status. */
int tls_run(const char *host, const char *port);

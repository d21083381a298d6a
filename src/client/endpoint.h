/* endpoint: the URL of a server, taken apart. Pure. */
#pragma once

#include "base/err.h"
#include "base/slice.h"

enum endpoint_kind { ENDPOINT_TCP, ENDPOINT_TLS, ENDPOINT_UNIX };

struct endpoint {
        enum endpoint_kind kind;
        char *host; /* TCP and TLS: a name or an address, IPv6 without brackets */
        uint16_t port;
        char *path; /* ENDPOINT_UNIX: of the socket; else: what is requested, begins with '/' */
};

/* Parses ws://HOST:PORT[/PATH], wss://HOST[:PORT][/PATH] (port 443) or unix:/PATH. A user or a password in the URL is refused:
 * URLs are shown in logs and in lists of processes. */
NODISCARD int endpoint_parse(const char *text, struct endpoint *ret, struct err *err);
void endpoint_release(struct endpoint *e);

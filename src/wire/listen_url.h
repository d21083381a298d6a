/* listen_url: the URL of --listen: an address, a path or stdio (docs/PROTOCOL.md). Pure functions, for the server and for programs
 * that start one. */
#pragma once

#include "base/compat.h"
#include "base/err.h"

#include <sys/un.h>

#define LISTEN_URL_DEFAULT "ws://127.0.0.1:0"
/* The longest path that a unix socket can have. */
#define LISTEN_PATH_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

enum listen_kind { LISTEN_WS, LISTEN_UNIX, LISTEN_STDIO };

struct listen_url {
        enum listen_kind kind;
        char *host; /* LISTEN_WS: a literal address, IPv6 without brackets */
        uint16_t port;
        char *path; /* LISTEN_UNIX: as it was written */
};

NODISCARD int listen_url_parse(const char *text, struct listen_url *ret, struct err *err);
int listen_url_too_long(const char *text, struct err *err); /* fills the error, and returns its code */
void listen_url_release(struct listen_url *u);
bool listen_url_is_loopback(const struct listen_url *u); /* unix and stdio count as loopback */

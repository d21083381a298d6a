/* listen_url: the URL of --listen: an address, a path or stdio (docs/PROTOCOL.md). */
#pragma once

#include "base/compat.h"
#include "base/err.h"

enum listen_kind { LISTEN_WS, LISTEN_UNIX, LISTEN_STDIO };

struct listen_url {
        enum listen_kind kind;
        char *host; /* LISTEN_WS: a literal address, IPv6 without brackets */
        uint16_t port;
        char *path; /* LISTEN_UNIX: absolute */
};

NODISCARD int listen_url_parse(const char *text, struct listen_url *ret, struct err *err);
void listen_url_release(struct listen_url *u);
bool listen_url_is_loopback(const struct listen_url *u); /* unix and stdio count as loopback */

/* endpoint: takes the URL of a server apart, without any system call. */
#pragma once

#include "base/err.h"
#include "base/slice.h"

enum endpoint_kind { ENDPOINT_TCP, ENDPOINT_TLS, ENDPOINT_UNIX, ENDPOINT_SSH };

struct endpoint {
        enum endpoint_kind kind;
        char *user;    /* SSH: NULL: ssh decides */
        char *host;    /* a name or an address, IPv6 without brackets; NULL for UNIX */
        uint16_t port; /* SSH: 0: ssh decides */
        char *path;    /* ENDPOINT_UNIX: of the socket; else: what is requested, begins with '/' */
};

/* Parses ws://HOST[:PORT][/PATH] (port 80), wss://HOST[:PORT][/PATH] (port 443), unix:/PATH or ssh://[USER@]HOST[:PORT]. A password in the URL is
 * refused, and a user where there is no ssh: URLs are shown in logs and in lists of processes. */
NODISCARD int endpoint_parse(const char *text, struct endpoint *ret, struct err *err);
void endpoint_release(struct endpoint *e);

/* server_url: takes the URL of a server apart, and says what is wrong with it. Pure functions.
 *
 *   ws://HOST[:PORT][/PATH]   wss://HOST[:PORT][/PATH]   unix:/PATH   ssh://[USER@]HOST[:PORT]
 *
 * Host and path reach the head of an HTTP request: neither can end a line of it. No name is looked up.
 */
#pragma once

#include "base/authority.h"
#include "base/slice.h"

enum server_url_kind {
        SERVER_URL_OTHER, /* the scheme is none of these */
        SERVER_URL_WS,
        SERVER_URL_WSS,
        SERVER_URL_UNIX,
        SERVER_URL_SSH,
};

struct server_url {
        enum server_url_kind kind;  /* set also when something else is wrong */
        struct authority authority; /* not of UNIX; for WS and WSS a user is wrong */
        uint16_t port;              /* that of the authority, else 80 or 443; SSH: 0: ssh decides */
        struct slice
                path; /* UNIX: of the socket; else what is requested, as far as the URL says it: empty, or begins with '/' or '?' */
};

/* Returns NULL, or what is wrong with the text, as a literal. */
NODISCARD const char *server_url_parse(struct slice text, struct server_url *ret);

/* environment_url: which URLs an environment may have. Pure functions.
 *
 *     ws://HOST[:PORT][/PATH][?QUERY]    wss:// too
 *     unix:/ABSOLUTE/PATH                the socket of a server on this machine
 *     ssh://[USER@]HOST[:PORT][/]        a server that ssh starts
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets. Only the form is checked; no name is looked up. Host and user
 * reach the command line of ssh: neither can begin with a dash, and both are of a few harmless characters only. A ws or wss URL
 * has no user and no password: they would be sent to nobody.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "env/environment.h"

/* Checks a URL without the blanks around it, which *ret gets as a copy in the arena. Returns 0 or -EINVAL. */
NODISCARD int environment_url_check(struct arena *a, struct slice text, const char **ret,
                                    enum environment_kind *ret_kind, struct err *err);

struct ssh_url {
        const char *user; /* NULL: ssh decides */
        const char *host; /* without brackets */
        uint16_t port;    /* 0: ssh decides */
};

/* Takes apart the url of an ENVIRONMENT_SSH; the texts are in the arena. Returns 0, or -EINVAL for another text. */
NODISCARD int ssh_url_parse(struct arena *a, struct slice url, struct ssh_url *ret, struct err *err);

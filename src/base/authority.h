/* authority: the part [USER@]HOST[:PORT] of a URL, and URLs of ssh, which have nothing else. Pure functions.
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets, with a zone for links of this machine ([fe80::1%eth0]), but not for ssh. Only the form is checked; no name is looked up. Host and user of
 * ssh reach the command line of ssh: neither can begin with a dash, and both are of a few harmless characters only.
 */
#pragma once

#include "base/slice.h"

struct authority {
        bool has_user;
        struct slice user, host; /* the host without brackets */
        uint16_t port;           /* 0: the text has none */
};

/* Returns the authority at the beginning of `text`: what is in front of a path, a query or a fragment. */
NODISCARD struct slice authority_of(struct slice text);
/* Parses an authority, whose user is not checked. Returns NULL, or what is wrong with the text, as a literal. */
NODISCARD const char *authority_parse(struct slice text, struct authority *ret);
/* Parses ssh://[USER@]HOST[:PORT][/]. Returns as authority_parse. */
NODISCARD const char *authority_parse_ssh(struct slice url, struct authority *ret);

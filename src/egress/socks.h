/* socks: the messages of SOCKS5 (RFC 1928), read and written.
 *
 * Pure. Readers return the bytes of the message; 0: there is more to come; -EBADMSG: it is none. Slices point into the caller's bytes.
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

#include <netinet/in.h>
#include <sys/types.h>

enum socks_command { SOCKS_CONNECT = 1, SOCKS_BIND = 2, SOCKS_UDP_ASSOCIATE = 3 };

enum socks_code {
        SOCKS_DONE = 0,
        SOCKS_NOT_ALLOWED = 2,
        SOCKS_UNREACHABLE = 5,
        SOCKS_NO_COMMAND = 7,
        SOCKS_NO_ADDRESS_TYPE = 8,
};

struct socks_request {
        unsigned command;
        struct slice host; /* a name, or `text` */
        uint16_t port;
        char text[INET6_ADDRSTRLEN]; /* an address as text */
};

/* *ret: does the client offer to go without authentication? */
NODISCARD ssize_t socks_hello_read(struct slice in, bool *ret);
/* -EAFNOSUPPORT: an unknown type of address. */
NODISCARD ssize_t socks_request_read(struct slice in, struct socks_request *ret);

#define SOCKS_REPLY_MAX 22
/* `bound` is our end of the new connection; NULL: none. Returns the bytes written. */
size_t socks_reply_write(char ret[SOCKS_REPLY_MAX], enum socks_code code,
                         const struct sockaddr_storage *bound);

/* client_hello: whom the first bytes of a connection ask for, when they are the beginning of TLS (RFC 8446, 4.1.2; RFC 6066, 3).
 *
 * Nothing is decrypted, and nothing is answered. The bytes are the command's, and the server at the other end reads them too: what two
 * readers could understand differently is broken here (a name twice, empty records, something between the records of one hello, bytes
 * behind it). A second hello, which a server may ask for, is not looked at.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

#define CLIENT_HELLO_MAX (16 * 1024) /* bytes, with the heads of records */
#define CLIENT_HELLO_HOST_MAX 253

enum client_hello_kind {
        CLIENT_HELLO_MORE,     /* too few bytes to tell; never with CLIENT_HELLO_MAX bytes */
        CLIENT_HELLO_NOT_TLS,  /* another protocol */
        CLIENT_HELLO_NAMELESS, /* TLS that names no host */
        CLIENT_HELLO_NAMED,
        CLIENT_HELLO_BROKEN, /* begins like TLS, and is none, or is too long */
};

struct client_hello {
        enum client_hello_kind kind;
        bool has_ech; /* the host is, or pretends to be, the outer name of an encrypted hello */
        char host[CLIENT_HELLO_HOST_MAX + 1]; /* CLIENT_HELLO_NAMED only: as net_host_normalize gives it */
        size_t host_n;
};

/* Looks at all bytes that have come so far. Asked again with more bytes, it says the same or more. */
NODISCARD struct client_hello client_hello_read(struct slice first_bytes);

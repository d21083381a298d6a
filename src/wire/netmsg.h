/* netmsg: the messages between the server and farhand-net, on their socketpair.
 *
 *      0        4       5         6        8        12
 *      | length | type  | version | zero   | id     | payload: `length` bytes
 *
 * Little-endian. `id` names one HTTP request. The server sends REQUEST, then BODY until the announced length is complete,
 * CREDIT as it passes bytes of the response on, and CANCEL. farhand-net sends HEAD, DATA and, as the last message about an id,
 * END. It may send no more DATA than it has credit for. After CANCEL the server ignores messages with that id. The server
 * sends PING to learn whether farhand-net still works, which answers PONG; both have id 0.
 *
 * Each end treats the other as hostile: every length is bounded and every field checked, and a broken message closes the
 * socket. Decoders are pure; slices point into the input, arrays into the arena.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "wire/http.h"

#define NETMSG_VERSION 2
#define NETMSG_HEAD_BYTES 12
#define NETMSG_PAYLOAD_MAX (768 * 1024) /* bytes: a HEAD with all its headers, or a piece of a body */
#define NETMSG_PIECE_MAX (64 * 1024)    /* bytes of a body in one message */
#define NETMSG_HEADERS_MAX 4096
#define NETMSG_TEXT_MAX 4096 /* bytes of netmsg_end::text */
#define NETMSG_NO_TIMEOUT UINT64_MAX

enum netmsg_type {
        NETMSG_REQUEST = 1,
        NETMSG_BODY = 2,
        NETMSG_CREDIT = 3,
        NETMSG_CANCEL = 4,
        NETMSG_PING = 5,
        NETMSG_HEAD = 65,
        NETMSG_DATA = 66,
        NETMSG_END = 67,
        NETMSG_PONG = 68,
};

struct netmsg {
        enum netmsg_type type;
        uint32_t id;
        struct slice payload;
};

struct netmsg_request {
        struct slice method, url;
        bool follows; /* follows redirects */
        uint64_t timeout_ms;
        uint64_t body_bytes; /* the length of the body, which is sent in BODY messages */
        uint32_t credit;     /* bytes of the response that may come before the first CREDIT */
        struct http_header *headers;
        size_t header_count;
        /* names, separated by commas, of the headers that only the origin of `url` gets */
        struct slice private_names;
};

struct netmsg_head {
        uint16_t status;
        struct http_header *headers;
        size_t header_count;
};

enum netmsg_outcome {
        NETMSG_DONE = 0,
        NETMSG_FAILED = 1, /* before HEAD: no response came; after HEAD: its body broke off */
};

struct netmsg_end {
        enum netmsg_outcome outcome;
        struct slice text; /* why the request failed; empty when it did not */
};

/* Returns how many bytes the first message of `in` takes; 0 when `in` does not hold all of it; -EPROTO when it is broken. */
NODISCARD ssize_t netmsg_next(struct slice in, struct netmsg *ret);

/* Decode the payload of one message. Return 0 or -EPROTO. */
NODISCARD int netmsg_request_decode(struct arena *a, struct slice payload, struct netmsg_request *ret);
NODISCARD int netmsg_head_decode(struct arena *a, struct slice payload, struct netmsg_head *ret);
NODISCARD int netmsg_end_decode(struct slice payload, struct netmsg_end *ret);
NODISCARD int netmsg_credit_decode(struct slice payload, uint32_t *ret);

/* Append one message to `out`. Return 0; -EMSGSIZE when the message would break a limit of its receiver, or -ENOBUFS when `out` is
 * full: both leave `out` as it was. */
NODISCARD int netmsg_request_write(struct buf *out, uint32_t id, const struct netmsg_request *m);
NODISCARD int netmsg_head_write(struct buf *out, uint32_t id, const struct netmsg_head *m);
NODISCARD int netmsg_end_write(struct buf *out, uint32_t id, const struct netmsg_end *m);
NODISCARD int netmsg_credit_write(struct buf *out, uint32_t id, uint32_t bytes);
NODISCARD int netmsg_cancel_write(struct buf *out, uint32_t id);
NODISCARD int netmsg_ping_write(struct buf *out);
NODISCARD int netmsg_pong_write(struct buf *out);
/* Appends bytes of any length, in as many messages as that takes. `type` is NETMSG_BODY or NETMSG_DATA. */
NODISCARD int netmsg_bytes_write(struct buf *out, enum netmsg_type type, uint32_t id, struct slice bytes);

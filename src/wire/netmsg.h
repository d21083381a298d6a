/* netmsg: what the server and farhand-net say to each other over their socketpair.
 *
 *      0        4       5         6        8        12
 *      | length | type  | version | zero   | id     | payload: `length` bytes
 *
 * Little-endian. `id` names one HTTP request. The server says REQUEST, BODY until the announced length is there, CREDIT
 * as it takes bytes of the response on, and CANCEL; the helper says HEAD, DATA and, as the last word about an id, END.
 * It may send no more DATA than it has credit for. After CANCEL what is still under way is ignored. PING asks whether the
 * helper still listens, PONG says so; both are about no request: id 0.
 *
 * Both ends take the other for hostile: every length is bounded and every field checked, and a broken message ends the
 * conversation. Decoders are pure; slices point into the input, arrays into the arena.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "wire/http.h"

#define NETMSG_VERSION 2
#define NETMSG_HEAD_BYTES 12
#define NETMSG_PAYLOAD_MAX \
        (768 * 1024)                 /* of one message: a head with all its headers, or a piece of a body */
#define NETMSG_PIECE_MAX (64 * 1024) /* of a body in one message */
#define NETMSG_HEADERS_MAX 4096
#define NETMSG_TEXT_MAX 4096 /* of END */
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
        bool follows; /* redirects */
        uint64_t timeout_ms;
        uint64_t body_bytes; /* come as BODY */
        uint32_t credit;     /* bytes of the response that may come before the first CREDIT */
        struct http_header *headers;
        size_t header_count;
        struct slice private_names; /* of headers that stay with the origin of `url`; a comma between two */
};

struct netmsg_head {
        uint16_t status;
        struct http_header *headers;
        size_t header_count;
};

enum netmsg_outcome {
        NETMSG_DONE = 0,
        NETMSG_FAILED = 1, /* before the head of the response; or in its body, when there was a HEAD */
};

struct netmsg_end {
        enum netmsg_outcome outcome;
        struct slice text; /* why it failed */
};

/* > 0: bytes of the first message of `in`. 0: need more. -EPROTO: broken. */
NODISCARD ssize_t netmsg_next(struct slice in, struct netmsg *ret);

/* 0 or -EPROTO. */
NODISCARD int netmsg_request_decode(struct arena *a, struct slice payload, struct netmsg_request *ret);
NODISCARD int netmsg_head_decode(struct arena *a, struct slice payload, struct netmsg_head *ret);
NODISCARD int netmsg_end_decode(struct slice payload, struct netmsg_end *ret);
NODISCARD int netmsg_credit_decode(struct slice payload, uint32_t *ret);

/* One message at the end of `out`. -EMSGSIZE when it would break a limit of the other end, -ENOBUFS when `out` is full;
 * either leaves `out` as it was. */
NODISCARD int netmsg_request_write(struct buf *out, uint32_t id, const struct netmsg_request *m);
NODISCARD int netmsg_head_write(struct buf *out, uint32_t id, const struct netmsg_head *m);
NODISCARD int netmsg_end_write(struct buf *out, uint32_t id, const struct netmsg_end *m);
NODISCARD int netmsg_credit_write(struct buf *out, uint32_t id, uint32_t bytes);
NODISCARD int netmsg_cancel_write(struct buf *out, uint32_t id);
NODISCARD int netmsg_ping_write(struct buf *out);
NODISCARD int netmsg_pong_write(struct buf *out);
/* Any length: becomes as many messages as it takes. `type` is NETMSG_BODY or NETMSG_DATA. */
NODISCARD int netmsg_bytes_write(struct buf *out, enum netmsg_type type, uint32_t id, struct slice bytes);

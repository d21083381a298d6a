/* http_head: the heads of HTTP/1 messages that go through the proxy: read strictly, and written again without what concerns one
 * connection only.
 *
 * Pure. What two programs could read in two ways (request smuggling) is refused: line ends other than CRLF, continued lines, control
 * characters, more than one length, a length beside chunks, lengths that are no plain numbers. Slices point into the caller's bytes.
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

#include <sys/types.h>

#define HTTP_FIELDS_MAX 256

enum http_framing { HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED, HTTP_UNTIL_END };

struct http_field {
        struct slice name, value; /* value without blanks around it */
        bool is_dropped;          /* concerns one connection only, or is written anew */
};

struct http_head {
        struct slice method, target; /* of a request */
        unsigned status;             /* of a response */
        struct slice reason;
        unsigned minor_version; /* HTTP/1.x */
        struct http_field fields[HTTP_FIELDS_MAX];
        size_t field_count;
        enum http_framing framing;
        uint64_t length; /* HTTP_LENGTH */
        bool is_kept_alive;
        struct slice upgrade; /* what the connection shall become; p == NULL: nothing */
        struct slice host;    /* p == NULL: there is none */
        bool has_unix_socket; /* the field x-unix-socket */
};

/* Looks for the end of a head. *scanned is where the search goes on next time, and begins with 0. Returns the bytes of the head; 0:
 * there is more to come; -EBADMSG: a line does not end in CRLF. */
NODISCARD ssize_t http_head_find(struct slice in, size_t *scanned);

/* Read a head that http_head_find has found. Return 0; -EBADMSG; -EMSGSIZE: too many fields. `method` is that of the request which
 * the response answers. */
NODISCARD int http_request_read(struct slice head, struct http_head *ret);
NODISCARD int http_response_read(struct slice head, struct slice method, struct http_head *ret);

struct http_target {
        struct slice authority; /* as written, "HOST" or "HOST:PORT" */
        struct slice host;      /* without the brackets of an IPv6 address */
        uint16_t port;
        struct slice path; /* with the query; what a server is asked for */
        bool is_tls;       /* https:// */
};

/* Finds out where a request goes: its target, or the Host field when the target is a path. Returns 0; -EBADMSG; -ENOENT: a path and no
 * Host field; -EXDEV: the Host field names another host or port than the target. */
NODISCARD int http_target_read(const struct http_head *h, struct http_target *ret);
/* Splits "HOST:PORT". `port` is for a text without one. Returns 0 or -EBADMSG. */
NODISCARD int http_authority_read(struct slice text, uint16_t port, struct slice *ret_host,
                                  uint16_t *ret_port);

/* Append a head as it is passed on. A request is written with its path as the target, or with `is_absolute` for another proxy.
 * `is_kept_alive` and `upgrades` are about the connection on which it is sent. Return 0 or -ENOBUFS. */
NODISCARD int http_request_write(struct buf *out, const struct http_head *h, const struct http_target *t,
                                 bool is_absolute, bool upgrades);
NODISCARD int http_response_write(struct buf *out, const struct http_head *h, bool is_kept_alive);

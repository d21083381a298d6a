/* http: the head of an HTTP/1.1 request, and the head of an answer.
 *
 * http_parse is a pure function over the bytes so far (the shape of picohttpparser): bytes consumed, "more", or an
 * error status to answer with. Names and values are slices into the caller's buffer. It reads no bodies; it only says
 * whether a body follows and how its length is given.
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"

#include <sys/types.h>

#define HTTP_HEAD_MAX 16384 /* request line and headers together; beyond: 431 */
#define HTTP_HEADERS_MAX 100

struct http_header {
        struct slice name, value; /* value without blanks around it */
};

struct http_request {
        struct slice method;
        struct slice target; /* as sent */
        struct slice path;   /* the target up to '?'; only the path of an absolute URI */
        struct slice query;  /* behind '?'; p == NULL when there is none */
        int minor_version;   /* HTTP/1.x */
        size_t header_count;
        struct http_header headers[HTTP_HEADERS_MAX];
        bool has_content_length;
        uint64_t content_length; /* 0 when not given */
        bool is_chunked;
        bool is_kept_alive; /* as the version and the Connection header say */
};

/* Parses the head of a request. Returns its length in bytes; 0 when `in` does not hold all of it; a negative status (400, 431,
 * 501, 505) to answer with before closing, when it is broken. Strict: no obs-fold, no blanks before ':', no bare CR, no control
 * characters, at most one Content-Length, not both Content-Length and Transfer-Encoding (request smuggling). A lone LF as line
 * end is accepted as CRLF. Leading empty lines (at most 2) are skipped. */
NODISCARD ssize_t http_parse(struct slice in, struct http_request *ret);

/* Returns whether one of the headers has that name. Compares byte by byte, so all names must be in the same case. */
bool http_has_header(const struct http_header *headers, size_t count, struct slice name);
/* Returns the value of the first header of that name (ASCII case-insensitive), or a slice with p == NULL. */
NODISCARD struct slice http_header_find(const struct http_request *r, struct slice name);
/* Returns how many headers have that name. */
size_t http_header_count(const struct http_request *r, struct slice name);
/* Returns whether `token` is among the comma-separated items of all headers of that name (case-insensitive). */
bool http_header_has_token(const struct http_request *r, struct slice name, struct slice token);

const char *http_reason(int status);

struct http_answer {
        int status;
        const char *content_type;  /* NULL = none */
        const char *extra_headers; /* complete "name: value\r\n" lines, or NULL */
        struct slice body;
        bool is_head;     /* answers HEAD: has the content-length of `body`, but not the body */
        bool wants_close; /* adds connection: close */
};

/* Appends status line, headers (content-length, date) and body. */
NODISCARD int http_answer_write(struct buf *out, const struct http_answer *answer);

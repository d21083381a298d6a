/* http: the head of an HTTP/1.1 request, and the head of an answer.
 *
 * http_parse is a pure function over the bytes so far (the shape of picohttpparser): bytes consumed, "more", or an
 * error status to answer with. Names and values are slices into the caller's buffer. Bodies are not its business: it
 * only says how one is announced, so that a real HTTP server can be built on it.
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
        struct slice path;   /* target up to '?' (of an absolute-form target its path) */
        struct slice query;  /* behind '?'; p == NULL when there is none */
        int minor_version;   /* HTTP/1.x */
        size_t header_count;
        struct http_header headers[HTTP_HEADERS_MAX];
        bool has_content_length;
        uint64_t content_length; /* 0 when not given */
        bool is_chunked;
        bool keep_alive; /* by version and Connection header */
};

/* > 0: bytes of the head, ret filled. 0: need more. < 0: broken; -*status* is what to answer (400, 431, 501, 505) before
 * closing. Strict: no obs-fold, no blanks before ':', no bare CR, no control characters, at most one Content-Length, not
 * both Content-Length and Transfer-Encoding (request smuggling). A lone LF as line end is accepted as CRLF. Leading
 * empty lines (at most 2) are skipped. */
NODISCARD ssize_t http_parse(struct slice in, struct http_request *ret);

/* First header of that name (ASCII case-insensitive), or a slice with p == NULL. */
NODISCARD struct slice http_header_find(const struct http_request *r, struct slice name);
/* How many headers have that name. */
size_t http_header_count(const struct http_request *r, struct slice name);
/* Is `token` among the comma-separated items of all headers of that name (case-insensitive)? */
bool http_header_has_token(const struct http_request *r, struct slice name, struct slice token);

const char *http_reason(int status);

struct http_answer {
        int status;
        const char *content_type;  /* NULL = none */
        const char *extra_headers; /* complete "name: value\r\n" lines, or NULL */
        struct slice body;
        bool is_head; /* answer to HEAD: content-length as given, no body */
        bool close;   /* adds connection: close */
};

/* Appends status line, headers (content-length, date) and body. */
NODISCARD int http_answer_write(struct buf *out, const struct http_answer *answer);

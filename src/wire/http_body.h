/* http_body: the body of an HTTP/1.1 request, taken off the bytes behind its head (RFC 9112, 6.3 and 7.1).
 *
 * Pure; the input may be split anywhere. Strict: no other line ends than CRLF, sizes without signs or blanks. Extensions of chunks
 * and trailers are skipped, up to HTTP_BODY_LINE_MAX bytes each.
 */
#pragma once

#include "wire/http.h"

#define HTTP_BODY_LINE_MAX 4096

enum http_body_state {
        HTTP_BODY_DATA, /* `left` bytes of the body, or of a chunk, follow */
        HTTP_BODY_SIZE,
        HTTP_BODY_EXTENSION,
        HTTP_BODY_SIZE_LF,
        HTTP_BODY_CHUNK_CR,
        HTTP_BODY_CHUNK_LF,
        HTTP_BODY_TRAILER, /* at the beginning of a line */
        HTTP_BODY_TRAILER_REST,
        HTTP_BODY_TRAILER_LF,
        HTTP_BODY_LAST_LF,
        HTTP_BODY_DONE,
};

struct http_body {
        enum http_body_state state;
        bool is_chunked;
        uint64_t left;
        unsigned digits;    /* of the size that is being read */
        size_t line_length; /* of the extension, or of all trailers */
};

void http_body_init(struct http_body *b, const struct http_request *r);

/* Takes bytes off `in`. Returns how many were taken; 0 when there are none or the body is complete (HTTP_BODY_DONE); -400 when they are no
 * body. *ret is the part of the body among them, which may be empty. */
NODISCARD ssize_t http_body_next(struct http_body *b, struct slice in, struct slice *ret);

/* http_body: counts the bytes of a body, or takes its chunks apart. */
#include "wire/http_body.h"

#define SIZE_DIGITS_MAX 15 /* more than any body has, and no overflow */

void http_body_init(struct http_body *b, const struct http_request *r)
{
        *b = (struct http_body){ .is_chunked = r->is_chunked, .left = r->content_length };
        if (r->is_chunked)
                b->state = HTTP_BODY_SIZE;
        else if (r->content_length == 0)
                b->state = HTTP_BODY_DONE;
}

/* The size line has ended. */
static void begin_chunk(struct http_body *b)
{
        b->digits = 0;
        b->line_length = 0;
        b->state = b->left > 0 ? HTTP_BODY_DATA : HTTP_BODY_TRAILER;
}

static bool take_size(struct http_body *b, char c)
{
        int value = ascii_hex_value(c);
        if (value >= 0) {
                b->left = b->left * 16 + (unsigned)value;
                return ++b->digits <= SIZE_DIGITS_MAX;
        }
        b->state = c == '\r' ? HTTP_BODY_SIZE_LF : HTTP_BODY_EXTENSION;
        return b->digits > 0 && (c == '\r' || c == ';');
}

/* Takes a byte of a line whose end is the state `lf`. */
static bool take_line(struct http_body *b, char c, enum http_body_state lf)
{
        if (c == '\r')
                b->state = lf;
        return c != '\n' && c != '\0' && ++b->line_length <= HTTP_BODY_LINE_MAX;
}

/* Takes a byte that belongs to the form of chunks. Returns false when it does not. */
static bool take_byte(struct http_body *b, char c)
{
        switch (b->state) {
        case HTTP_BODY_SIZE:
                return take_size(b, c);
        case HTTP_BODY_EXTENSION:
                return take_line(b, c, HTTP_BODY_SIZE_LF);
        case HTTP_BODY_SIZE_LF:
                begin_chunk(b);
                return c == '\n';
        case HTTP_BODY_CHUNK_CR:
                b->state = HTTP_BODY_CHUNK_LF;
                return c == '\r';
        case HTTP_BODY_CHUNK_LF:
                b->state = HTTP_BODY_SIZE;
                return c == '\n';
        case HTTP_BODY_TRAILER:
                b->state = c == '\r' ? HTTP_BODY_LAST_LF : HTTP_BODY_TRAILER_REST;
                return c != '\n' && c != '\0' && ++b->line_length <= HTTP_BODY_LINE_MAX;
        case HTTP_BODY_TRAILER_REST:
                return take_line(b, c, HTTP_BODY_TRAILER_LF);
        case HTTP_BODY_TRAILER_LF:
                b->state = HTTP_BODY_TRAILER;
                return c == '\n';
        case HTTP_BODY_LAST_LF:
                b->state = HTTP_BODY_DONE;
                return c == '\n';
        case HTTP_BODY_DATA:
        case HTTP_BODY_DONE:
                break;
        }
        return false;
}

ssize_t http_body_next(struct http_body *b, struct slice in, struct slice *ret)
{
        size_t at = 0;
        *ret = slice_from(in.p, 0);
        while (at < in.n && b->state != HTTP_BODY_DONE && b->state != HTTP_BODY_DATA)
                if (!take_byte(b, in.p[at++]))
                        return -400;
        if (b->state != HTTP_BODY_DATA)
                return (ssize_t)at;
        size_t n = (size_t)MIN((uint64_t)(in.n - at), b->left);
        *ret = slice_from(in.p + at, n);
        b->left -= n;
        if (b->left == 0)
                b->state = b->is_chunked ? HTTP_BODY_CHUNK_CR : HTTP_BODY_DONE;
        return (ssize_t)(at + n);
}

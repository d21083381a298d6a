/* netmsg: encodes and decodes the messages between the server and farhand-net.
 *
 * A reader takes the fields of a payload one by one and remembers the first error; a decoder checks for it once, at the end.
 */
#include "wire/netmsg.h"

#include <errno.h>

/* --- little-endian numbers ---------------------------------------------------------------------------------------- */

static uint64_t get_le(const char *p, size_t bytes)
{
        uint64_t v = 0;
        for (size_t i = bytes; i-- > 0;)
                v = v << 8 | (unsigned char)p[i];
        return v;
}

static void put_le(char *p, size_t bytes, uint64_t v)
{
        for (size_t i = 0; i < bytes; i++, v >>= 8)
                p[i] = (char)(v & 0xff);
}

/* --- reading messages --------------------------------------------------------------------------------------------- */

static bool is_known_type(unsigned type)
{
        switch (type) {
        case NETMSG_REQUEST:
        case NETMSG_BODY:
        case NETMSG_CREDIT:
        case NETMSG_CANCEL:
        case NETMSG_PING:
        case NETMSG_HEAD:
        case NETMSG_DATA:
        case NETMSG_END:
        case NETMSG_PONG:
                return true;
        default:
                return false;
        }
}

/* Checks type, id and length of a message; the decoders check the payload. */
static bool fits_type(unsigned type, size_t length, uint32_t id)
{
        switch (type) {
        case NETMSG_BODY:
        case NETMSG_DATA:
                return length > 0 && length <= NETMSG_PIECE_MAX;
        case NETMSG_CANCEL:
                return length == 0;
        case NETMSG_PING:
        case NETMSG_PONG:
                return length == 0 && id == 0;
        default:
                return true;
        }
}

ssize_t netmsg_next(struct slice in, struct netmsg *ret)
{
        if (in.n < NETMSG_HEAD_BYTES)
                return 0;
        size_t length = (size_t)get_le(in.p, 4);
        unsigned type = (unsigned char)in.p[4], version = (unsigned char)in.p[5];
        uint32_t id = (uint32_t)get_le(in.p + 8, 4);
        if (length > NETMSG_PAYLOAD_MAX || !is_known_type(type) || version != NETMSG_VERSION ||
            get_le(in.p + 6, 2) != 0 || !fits_type(type, length, id))
                return -EPROTO;
        if (in.n - NETMSG_HEAD_BYTES < length)
                return 0;
        *ret = (struct netmsg){
                .type = (enum netmsg_type)type,
                .id = id,
                .payload = slice_from(in.p + NETMSG_HEAD_BYTES, length),
        };
        return (ssize_t)(NETMSG_HEAD_BYTES + length);
}

struct reader {
        struct slice rest;
        bool is_broken;
};

static uint64_t read_number(struct reader *r, size_t bytes)
{
        if (r->is_broken || r->rest.n < bytes) {
                r->is_broken = true;
                return 0;
        }
        uint64_t v = get_le(r->rest.p, bytes);
        r->rest = slice_from(r->rest.p + bytes, r->rest.n - bytes);
        return v;
}

/* Reads a flag, which must be 0 or 1, so that every message has one spelling. */
static bool read_flag(struct reader *r)
{
        uint64_t v = read_number(r, 1);
        r->is_broken |= v > 1;
        return v == 1;
}

static struct slice read_string(struct reader *r)
{
        size_t n = (size_t)read_number(r, 4);
        if (r->is_broken || r->rest.n < n) {
                r->is_broken = true;
                return S("");
        }
        struct slice s = slice_from(r->rest.p, n);
        r->rest = slice_from(r->rest.p + n, r->rest.n - n);
        return s;
}

static void read_headers(struct reader *r, struct arena *a, struct http_header **ret, size_t *ret_count)
{
        size_t count = (size_t)read_number(r, 4);
        /* Each header takes at least the 8 bytes of its two lengths, so a count that the message cannot hold is refused before
         * memory is allocated for it. */
        if (r->is_broken || count > NETMSG_HEADERS_MAX || count > r->rest.n / 8) {
                r->is_broken = true;
                return;
        }
        struct http_header *headers = arena_alloc(a, MAX(count, (size_t)1) * sizeof(*headers));
        for (size_t i = 0; i < count; i++) {
                headers[i].name = read_string(r);
                headers[i].value = read_string(r);
        }
        *ret = headers;
        *ret_count = count;
}

static int read_end(const struct reader *r)
{
        return r->is_broken || r->rest.n > 0 ? -EPROTO : 0;
}

int netmsg_request_decode(struct arena *a, struct slice payload, struct netmsg_request *ret)
{
        struct reader r = { .rest = payload };
        struct netmsg_request m = { 0 };
        m.method = read_string(&r);
        m.url = read_string(&r);
        m.follows = read_flag(&r);
        m.timeout_ms = read_number(&r, 8);
        m.body_bytes = read_number(&r, 8);
        m.credit = (uint32_t)read_number(&r, 4);
        read_headers(&r, a, &m.headers, &m.header_count);
        m.private_names = read_string(&r);
        if (read_end(&r) < 0)
                return -EPROTO;
        *ret = m;
        return 0;
}

int netmsg_head_decode(struct arena *a, struct slice payload, struct netmsg_head *ret)
{
        struct reader r = { .rest = payload };
        struct netmsg_head m = { 0 };
        m.status = (uint16_t)read_number(&r, 2);
        read_headers(&r, a, &m.headers, &m.header_count);
        if (read_end(&r) < 0 || m.status < 100 || m.status > 999)
                return -EPROTO;
        *ret = m;
        return 0;
}

int netmsg_end_decode(struct slice payload, struct netmsg_end *ret)
{
        struct reader r = { .rest = payload };
        bool has_failed = read_flag(&r);
        struct slice text = read_string(&r);
        if (read_end(&r) < 0 || text.n > NETMSG_TEXT_MAX)
                return -EPROTO;
        *ret = (struct netmsg_end){ .outcome = has_failed ? NETMSG_FAILED : NETMSG_DONE, .text = text };
        return 0;
}

int netmsg_credit_decode(struct slice payload, uint32_t *ret)
{
        struct reader r = { .rest = payload };
        uint32_t bytes = (uint32_t)read_number(&r, 4);
        if (read_end(&r) < 0 || bytes == 0)
                return -EPROTO;
        *ret = bytes;
        return 0;
}

/* --- writing messages --------------------------------------------------------------------------------------------- */

/* A message that is being written. */
struct writer {
        struct buf *out;
        size_t at; /* where the head of the message begins in `out` */
        int error; /* -errno of the first write that failed; 0: none has */
};

static void write_bytes(struct writer *w, struct slice bytes)
{
        if (!w->error)
                w->error = buf_append(w->out, bytes);
}

static void write_number(struct writer *w, size_t bytes, uint64_t v)
{
        char le[8];
        put_le(le, bytes, v);
        write_bytes(w, slice_from(le, bytes));
}

static void write_string(struct writer *w, struct slice s)
{
        if (s.n > NETMSG_PAYLOAD_MAX) {
                w->error = w->error ? w->error : -EMSGSIZE;
                return;
        }
        write_number(w, 4, s.n);
        write_bytes(w, s);
}

static void write_headers(struct writer *w, const struct http_header *headers, size_t count)
{
        if (count > NETMSG_HEADERS_MAX) {
                w->error = w->error ? w->error : -EMSGSIZE;
                return;
        }
        write_number(w, 4, count);
        for (size_t i = 0; i < count; i++) {
                write_string(w, headers[i].name);
                write_string(w, headers[i].value);
        }
}

static struct writer write_begin(struct buf *out, enum netmsg_type type, uint32_t id)
{
        struct writer w = { .out = out, .at = out->n };
        write_number(&w, 4, 0); /* the length: known at the end */
        write_number(&w, 1, type);
        write_number(&w, 1, NETMSG_VERSION);
        write_number(&w, 2, 0);
        write_number(&w, 4, id);
        return w;
}

static int write_end(struct writer *w)
{
        size_t length = w->out->n - w->at - (w->error ? 0 : NETMSG_HEAD_BYTES);
        if (!w->error && length > NETMSG_PAYLOAD_MAX)
                w->error = -EMSGSIZE;
        if (w->error) {
                buf_truncate(w->out, w->at);
                return w->error;
        }
        put_le(w->out->p + w->at, 4, length);
        return 0;
}

int netmsg_request_write(struct buf *out, uint32_t id, const struct netmsg_request *m)
{
        struct writer w = write_begin(out, NETMSG_REQUEST, id);
        write_string(&w, m->method);
        write_string(&w, m->url);
        write_number(&w, 1, m->follows);
        write_number(&w, 8, m->timeout_ms);
        write_number(&w, 8, m->body_bytes);
        write_number(&w, 4, m->credit);
        write_headers(&w, m->headers, m->header_count);
        write_string(&w, m->private_names);
        return write_end(&w);
}

int netmsg_head_write(struct buf *out, uint32_t id, const struct netmsg_head *m)
{
        struct writer w = write_begin(out, NETMSG_HEAD, id);
        write_number(&w, 2, m->status);
        write_headers(&w, m->headers, m->header_count);
        return write_end(&w);
}

int netmsg_end_write(struct buf *out, uint32_t id, const struct netmsg_end *m)
{
        struct writer w = write_begin(out, NETMSG_END, id);
        write_number(&w, 1, m->outcome == NETMSG_FAILED);
        write_string(&w, slice_from(m->text.p, MIN(m->text.n, (size_t)NETMSG_TEXT_MAX)));
        return write_end(&w);
}

int netmsg_credit_write(struct buf *out, uint32_t id, uint32_t bytes)
{
        struct writer w = write_begin(out, NETMSG_CREDIT, id);
        write_number(&w, 4, bytes);
        return write_end(&w);
}

int netmsg_cancel_write(struct buf *out, uint32_t id)
{
        struct writer w = write_begin(out, NETMSG_CANCEL, id);
        return write_end(&w);
}

int netmsg_ping_write(struct buf *out)
{
        struct writer w = write_begin(out, NETMSG_PING, 0);
        return write_end(&w);
}

int netmsg_pong_write(struct buf *out)
{
        struct writer w = write_begin(out, NETMSG_PONG, 0);
        return write_end(&w);
}

int netmsg_bytes_write(struct buf *out, enum netmsg_type type, uint32_t id, struct slice bytes)
{
        size_t before = out->n;
        while (bytes.n > 0) {
                size_t n = MIN(bytes.n, (size_t)NETMSG_PIECE_MAX);
                struct writer w = write_begin(out, type, id);
                write_bytes(&w, slice_from(bytes.p, n));
                int r = write_end(&w);
                if (r < 0) {
                        buf_truncate(out, before);
                        return r;
                }
                bytes = slice_from(bytes.p + n, bytes.n - n);
        }
        return 0;
}

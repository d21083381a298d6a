/* client_hello: joins the records of a ClientHello, and finds the name in it. */
#include "egress/client_hello.h"

#include "base/arena.h"
#include "netrule/host.h"

#define RECORD_HEAD 5
#define RECORD_MAX 16384
#define RECORD_HANDSHAKE 22
#define MESSAGE_HEAD 4
#define MESSAGE_CLIENT_HELLO 1
#define EXTENSION_SERVER_NAME 0
#define EXTENSION_ECH 0xfe0d
#define EXTENSION_ESNI 0xffce /* its draft */

static unsigned byte_at(struct slice s, size_t i)
{
        return (unsigned char)s.p[i];
}

/* --- vectors: a length of one or two bytes, and so many bytes ----------------------------------------------------- */

struct reader {
        struct slice rest;
        bool is_broken;
};

static struct slice take(struct reader *r, size_t n)
{
        if (r->is_broken || r->rest.n < n) {
                r->is_broken = true;
                return S("");
        }
        struct slice s = slice_from(r->rest.p, n);
        r->rest = slice_from(r->rest.p + n, r->rest.n - n);
        return s;
}

static unsigned take_number(struct reader *r, size_t bytes)
{
        struct slice s = take(r, bytes);
        unsigned v = 0;
        for (size_t i = 0; i < s.n; i++)
                v = v << 8 | byte_at(s, i);
        return v;
}

static struct slice take_vector(struct reader *r, size_t length_bytes)
{
        return take(r, take_number(r, length_bytes));
}

/* --- the message -------------------------------------------------------------------------------------------------- */

/* Exactly one name: with two, one reader could take the first and another the last. */
static bool read_server_name(struct slice extension, struct client_hello *h)
{
        _arena_ struct arena a = ARENA_INIT;
        struct reader r = { .rest = extension };
        struct reader names = { .rest = take_vector(&r, 2) };
        unsigned type = take_number(&names, 1);
        struct slice name = take_vector(&names, 2), host;
        if (r.is_broken || r.rest.n > 0 || names.is_broken || names.rest.n > 0 || type != 0 ||
            net_host_normalize(&a, name, &host) < 0)
                return false;
        memcpy(h->host, host.p, host.n);
        h->host[host.n] = 0;
        h->host_n = host.n;
        return true;
}

static bool read_extensions(struct slice extensions, struct client_hello *h)
{
        struct reader r = { .rest = extensions };
        while (r.rest.n > 0) {
                unsigned type = take_number(&r, 2);
                struct slice extension = take_vector(&r, 2);
                if (r.is_broken)
                        return false;
                h->has_ech |= type == EXTENSION_ECH || type == EXTENSION_ESNI;
                if (type != EXTENSION_SERVER_NAME)
                        continue;
                if (h->host_n > 0 || !read_server_name(extension, h))
                        return false;
        }
        return true;
}

static bool read_message(struct slice body, struct client_hello *h)
{
        struct reader r = { .rest = body };
        unsigned version = take_number(&r, 2);
        (void)take(&r, 32); /* random */
        struct slice session = take_vector(&r, 1);
        struct slice ciphers = take_vector(&r, 2);
        struct slice compressions = take_vector(&r, 1);
        if (r.is_broken || version >> 8 != 3 || session.n > 32 || ciphers.n < 2 || ciphers.n % 2 != 0 ||
            compressions.n == 0)
                return false;
        if (r.rest.n == 0)
                return true; /* an old client without extensions */
        struct slice extensions = take_vector(&r, 2);
        return !r.is_broken && r.rest.n == 0 && read_extensions(extensions, h);
}

/* --- the records -------------------------------------------------------------------------------------------------- */

/* Joins the handshake bytes of whole and begun records. Returns false when something else is among them. */
static bool join(struct slice in, char joined[static CLIENT_HELLO_MAX], size_t *ret_n, bool *ret_ends_record)
{
        size_t n = 0;
        *ret_ends_record = false;
        while (in.n > 0) {
                if (byte_at(in, 0) != RECORD_HANDSHAKE || (in.n > 1 && byte_at(in, 1) != 3))
                        return false;
                if (in.n < RECORD_HEAD)
                        break;
                size_t length = byte_at(in, 3) << 8 | byte_at(in, 4);
                if (length == 0 || length > RECORD_MAX)
                        return false;
                size_t here = MIN(length, in.n - RECORD_HEAD);
                memcpy(joined + n, in.p + RECORD_HEAD, here);
                n += here;
                *ret_ends_record = here == length;
                in = slice_from(in.p + RECORD_HEAD + here, in.n - RECORD_HEAD - here);
                if (n < MESSAGE_HEAD)
                        continue;
                /* What follows a whole message is no concern of ours. */
                struct slice head = slice_from(joined, n);
                if (n >= MESSAGE_HEAD + (byte_at(head, 1) << 16 | byte_at(head, 2) << 8 | byte_at(head, 3)))
                        break;
        }
        *ret_n = n;
        return true;
}

static enum client_hello_kind read_kind(struct slice in, struct client_hello *h)
{
        char joined[CLIENT_HELLO_MAX];
        size_t n = 0;
        bool ends_record = false;
        if (in.n == 0)
                return CLIENT_HELLO_MORE;
        if (byte_at(in, 0) != RECORD_HANDSHAKE || (in.n > 1 && byte_at(in, 1) != 3))
                return CLIENT_HELLO_NOT_TLS;
        if (!join(in, joined, &n, &ends_record))
                return CLIENT_HELLO_BROKEN;
        struct slice s = slice_from(joined, n);
        if (n > 0 && byte_at(s, 0) != MESSAGE_CLIENT_HELLO)
                return CLIENT_HELLO_BROKEN;
        if (n < MESSAGE_HEAD)
                return CLIENT_HELLO_MORE;
        size_t length = byte_at(s, 1) << 16 | byte_at(s, 2) << 8 | byte_at(s, 3);
        if (length > CLIENT_HELLO_MAX - RECORD_HEAD - MESSAGE_HEAD)
                return CLIENT_HELLO_BROKEN;
        if (n < MESSAGE_HEAD + length)
                return CLIENT_HELLO_MORE;
        if (n > MESSAGE_HEAD + length)
                return CLIENT_HELLO_BROKEN;
        /* A record that is longer than its hello has something behind it, which has not come yet. */
        if (!ends_record || !read_message(slice_from(joined + MESSAGE_HEAD, length), h))
                return CLIENT_HELLO_BROKEN;
        return h->host_n > 0 ? CLIENT_HELLO_NAMED : CLIENT_HELLO_NAMELESS;
}

struct client_hello client_hello_read(struct slice first_bytes)
{
        struct client_hello h = { 0 };
        struct slice in = slice_from(first_bytes.p, MIN(first_bytes.n, (size_t)CLIENT_HELLO_MAX));
        h.kind = read_kind(in, &h);
        if (h.kind == CLIENT_HELLO_MORE && in.n == CLIENT_HELLO_MAX)
                h.kind = CLIENT_HELLO_BROKEN;
        if (h.kind != CLIENT_HELLO_NAMED)
                h.host_n = 0;
        return h;
}

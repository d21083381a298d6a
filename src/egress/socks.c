/* socks: reads and writes the messages of SOCKS5. */
#include "egress/socks.h"

#include <arpa/inet.h>
#include <errno.h>

#define VERSION 5
#define NO_AUTHENTICATION 0
enum { TYPE_IPV4 = 1, TYPE_NAME = 3, TYPE_IPV6 = 4 };

static unsigned char byte_at(struct slice in, size_t at)
{
        return (unsigned char)in.p[at];
}

ssize_t socks_hello_read(struct slice in, bool *ret)
{
        if (in.n >= 1 && byte_at(in, 0) != VERSION)
                return -EBADMSG;
        if (in.n < 2 || in.n < 2 + (size_t)byte_at(in, 1))
                return 0;
        size_t count = byte_at(in, 1);
        *ret = count > 0 && memchr(in.p + 2, NO_AUTHENTICATION, count) != NULL;
        return (ssize_t)(2 + count);
}

ssize_t socks_request_read(struct slice in, struct socks_request *ret)
{
        size_t head = 4, n;
        if ((in.n >= 1 && byte_at(in, 0) != VERSION) || (in.n >= 3 && byte_at(in, 2) != 0))
                return -EBADMSG;
        if (in.n < 5)
                return 0;
        unsigned type = byte_at(in, 3);
        switch (type) {
        case TYPE_IPV4:
                n = 4;
                break;
        case TYPE_IPV6:
                n = 16;
                break;
        case TYPE_NAME:
                n = byte_at(in, 4);
                head = 5;
                break;
        default:
                return -EAFNOSUPPORT;
        }
        if (in.n < head + n + 2)
                return 0;
        if (n == 0)
                return -EBADMSG;
        *ret = (struct socks_request){ .command = byte_at(in, 1), .host = slice_from(in.p + head, n) };
        if (type != TYPE_NAME) {
                (void)inet_ntop(type == TYPE_IPV4 ? AF_INET : AF_INET6, in.p + head, ret->text,
                                sizeof(ret->text));
                ret->host = slice_from_str(ret->text);
        }
        ret->port = (uint16_t)(byte_at(in, head + n) << 8 | byte_at(in, head + n + 1));
        return (ssize_t)(head + n + 2);
}

size_t socks_reply_write(char ret[SOCKS_REPLY_MAX], enum socks_code code,
                         const struct sockaddr_storage *bound)
{
        memset(ret, 0, SOCKS_REPLY_MAX);
        ret[0] = VERSION;
        ret[1] = (char)code;
        ret[3] = TYPE_IPV4;
        if (bound && bound->ss_family == AF_INET6) {
                const struct sockaddr_in6 *in6 = (const void *)bound;
                ret[3] = TYPE_IPV6;
                memcpy(ret + 4, &in6->sin6_addr, 16);
                memcpy(ret + 20, &in6->sin6_port, 2);
                return 22;
        }
        if (bound && bound->ss_family == AF_INET) {
                const struct sockaddr_in *in4 = (const void *)bound;
                memcpy(ret + 4, &in4->sin_addr, 4);
                memcpy(ret + 8, &in4->sin_port, 2);
        }
        return 10;
}

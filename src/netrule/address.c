/* address: IP addresses as one kind of 16 bytes, the ranges that are not public, and ranges of rules. */
#include "netrule/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };

static bool is_v4(const uint8_t bytes[16])
{
        return memcmp(bytes, mapped_prefix, sizeof(mapped_prefix)) == 0;
}

static struct net_address from_v4(const void *four)
{
        struct net_address a;
        memcpy(a.bytes, mapped_prefix, 12);
        memcpy(a.bytes + 12, four, 4);
        return a;
}

bool net_address_parse(struct slice text, struct net_address *ret)
{
        char copy[INET6_ADDRSTRLEN];
        if (text.n == 0 || text.n >= sizeof(copy) || slice_has_nul(text))
                return false;
        memcpy(copy, text.p, text.n);
        copy[text.n] = 0;
        struct in_addr v4;
        if (inet_pton(AF_INET, copy, &v4) == 1) {
                *ret = from_v4(&v4);
                return true;
        }
        struct net_address a;
        if (inet_pton(AF_INET6, copy, a.bytes) != 1)
                return false;
        *ret = a;
        return true;
}

bool net_address_of(const struct sockaddr_storage *a, struct net_address *ret)
{
        if (a->ss_family == AF_INET) {
                struct sockaddr_in v4;
                memcpy(&v4, a, sizeof(v4));
                *ret = from_v4(&v4.sin_addr);
                return true;
        }
        if (a->ss_family != AF_INET6)
                return false;
        struct sockaddr_in6 v6;
        memcpy(&v6, a, sizeof(v6));
        memcpy(ret->bytes, &v6.sin6_addr, sizeof(ret->bytes));
        return true;
}

socklen_t net_address_to(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret)
{
        *ret = (struct sockaddr_storage){ 0 };
        if (is_v4(a->bytes)) {
                struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
                memcpy(&v4.sin_addr, a->bytes + 12, 4);
                memcpy(ret, &v4, sizeof(v4));
                return sizeof(v4);
        }
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
        memcpy(&v6.sin6_addr, a->bytes, 16);
        memcpy(ret, &v6, sizeof(v6));
        return sizeof(v6);
}

void net_address_text(const struct net_address *a, char ret[static NET_ADDRESS_TEXT_BYTES])
{
        bool is_short = is_v4(a->bytes);
        const char *text = inet_ntop(is_short ? AF_INET : AF_INET6, a->bytes + (is_short ? 12 : 0), ret,
                                     NET_ADDRESS_TEXT_BYTES);
        assert(text);
        (void)text;
}

/* --- ranges ------------------------------------------------------------------------------------------------------- */

#define V4(a, b, c, d, n)                                                                                \
        {                                                                                                \
                .address = { [10] = 0xff, [11] = 0xff, [12] = (a), [13] = (b), [14] = (c), [15] = (d) }, \
                .length = 96 + (n),                                                                      \
        }
#define V6(n, ...)                                         \
        {                                                  \
                .address = { __VA_ARGS__ }, .length = (n), \
        }

/* IANA's registries of special addresses, as far as they are not globally reachable. */
static const struct net_cidr special[] = {
        V4(0, 0, 0, 0, 8),           /* this network */
        V4(10, 0, 0, 0, 8),          /* private */
        V4(100, 64, 0, 0, 10),       /* shared by providers */
        V4(127, 0, 0, 0, 8),         /* loopback */
        V4(169, 254, 0, 0, 16),      /* link-local, and the metadata of clouds */
        V4(172, 16, 0, 0, 12),       /* private */
        V4(192, 0, 0, 0, 24),        /* protocol assignments */
        V4(192, 0, 2, 0, 24),        /* documentation */
        V4(192, 168, 0, 0, 16),      /* private */
        V4(198, 18, 0, 0, 15),       /* benchmarks */
        V4(198, 51, 100, 0, 24),     /* documentation */
        V4(203, 0, 113, 0, 24),      /* documentation */
        V4(224, 0, 0, 0, 4),         /* multicast */
        V4(240, 0, 0, 0, 4),         /* reserved, and broadcast */
        V6(96, 0),                   /* ::, ::1, and IPv4-compatible addresses */
        V6(96, 0, 0x64, 0xff, 0x9b), /* NAT64: the translator may live in this network */
        V6(48, 0, 0x64, 0xff, 0x9b, 0, 1),
        V6(96, 0, [8] = 0xff, 0xff),    /* IPv4 addresses of translators */
        V6(64, 1),                      /* discarded */
        V6(16, 0x5f),                   /* segments of routes */
        V6(23, 0x20, 0x01),             /* protocol assignments; Teredo: tunnels to an address inside */
        V6(32, 0x20, 0x01, 0x0d, 0xb8), /* documentation */
        V6(16, 0x20, 0x02),             /* 6to4: the same */
        V6(20, 0x3f, 0xff),             /* documentation */
        V6(7, 0xfc),                    /* private */
        V6(10, 0xfe, 0x80),             /* link-local */
        V6(10, 0xfe, 0xc0),             /* site-local */
        V6(8, 0xff),                    /* multicast */
};

static const struct net_cidr metadata[] = {
        V4(169, 254, 169, 254, 32),                                /* most clouds */
        V4(169, 254, 169, 253, 32),                                /* the resolver of EC2 */
        V4(169, 254, 170, 2, 32),                                  /* credentials of ECS */
        V4(169, 254, 170, 23, 32),                                 /* credentials of EKS */
        V4(168, 63, 129, 16, 32),                                  /* Azure; looks public */
        V4(100, 100, 100, 200, 32),                                /* Alibaba */
        V4(192, 0, 0, 192, 32),                                    /* Oracle */
        V6(128, 0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54), /* EC2 */
        V6(128, 0xfd, 0x00, 0x0e, 0xc2, [15] = 0x23),              /* EKS */
        V6(128, 0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54), /* Google */
};

static bool is_in(const struct net_cidr *ranges, size_t count, const struct net_address *a)
{
        for (size_t i = 0; i < count; i++)
                if (net_cidr_has(&ranges[i], a))
                        return true;
        return false;
}

bool net_is_public(const struct net_address *a)
{
        return !is_in(special, ARRAY_LEN(special), a);
}

bool net_address_is_public(const struct sockaddr_storage *a)
{
        struct net_address address;
        return net_address_of(a, &address) && net_is_public(&address);
}

bool net_is_metadata(const struct net_address *a)
{
        struct net_address inner;
        return is_in(metadata, ARRAY_LEN(metadata), a) ||
               (net_address_embedded(a, &inner) && is_in(metadata, ARRAY_LEN(metadata), &inner));
}

bool net_address_embedded(const struct net_address *a, struct net_address *ret)
{
        static const struct {
                struct net_cidr range;
                size_t at;
        } kinds[] = {
                { V6(96, 0), 12 },
                { V6(96, 0, 0x64, 0xff, 0x9b), 12 },
                { V6(96, 0, [8] = 0xff, 0xff), 12 },
                { V6(16, 0x20, 0x02), 2 },
        };
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                if (!net_cidr_has(&kinds[i].range, a))
                        continue;
                *ret = from_v4(a->bytes + kinds[i].at);
                return true;
        }
        return false;
}

/* Sets the bits behind `length` to zero. */
static void mask(uint8_t bytes[16], size_t length)
{
        for (size_t i = 0; i < 16; i++) {
                size_t kept = length > i * 8 ? MIN(length - i * 8, (size_t)8) : 0;
                bytes[i] &= (uint8_t)(0xff00 >> kept);
        }
}

int net_cidr_parse(struct slice text, struct net_cidr *ret)
{
        struct slice rest = text;
        struct slice base = slice_split(&rest, '/');
        struct net_address a;
        if (!net_address_parse(base, &a))
                return -EINVAL;
        /* An IPv4-mapped address in IPv6 spelling would make the length mean two things. */
        bool is_short = is_v4(a.bytes), has_colon = memchr(base.p, ':', base.n) != NULL;
        if (is_short && has_colon)
                return -EINVAL;
        uint64_t length = is_short ? 32 : 128;
        if (rest.p && (rest.n > 3 || slice_to_u64(rest, length, &length) < 0))
                return -EINVAL;
        struct net_cidr c = { .length = (uint8_t)(length + (is_short ? 96 : 0)) };
        memcpy(c.address, a.bytes, sizeof(c.address));
        if (!net_cidr_is_valid(&c))
                return -EINVAL;
        *ret = c;
        return 0;
}

bool net_cidr_is_valid(const struct net_cidr *c)
{
        if (c->length > 128)
                return false;
        uint8_t masked[16];
        memcpy(masked, c->address, sizeof(masked));
        mask(masked, c->length);
        return memcmp(masked, c->address, sizeof(masked)) == 0;
}

bool net_cidr_has(const struct net_cidr *c, const struct net_address *a)
{
        /* "::/0" means IPv6 alone, although IPv4 addresses are kept inside of it. */
        if ((c->length >= 96 && is_v4(c->address)) != is_v4(a->bytes))
                return false;
        uint8_t masked[16];
        memcpy(masked, a->bytes, sizeof(masked));
        mask(masked, c->length);
        return memcmp(masked, c->address, sizeof(masked)) == 0;
}

void net_cidr_text(const struct net_cidr *c, char ret[static NET_ADDRESS_TEXT_BYTES])
{
        struct net_address a;
        memcpy(a.bytes, c->address, sizeof(a.bytes));
        net_address_text(&a, ret);
        size_t n = strlen(ret);
        bool is_short = c->length >= 96 && is_v4(c->address);
        (void)snprintf(ret + n, NET_ADDRESS_TEXT_BYTES - n, "/%d", c->length - (is_short ? 96 : 0));
}

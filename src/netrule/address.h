/* address: IP addresses: literals as text, ranges, and which of them a managed network never reaches without a word of permission. */
#pragma once

#include "base/compat.h"
#include "base/slice.h"
#include "netrule/policy.h"

#include <sys/socket.h>

#define NET_ADDRESS_TEXT_BYTES 64 /* room for the text of an address or a range, with its NUL */

/* An address in one form: 16 bytes, IPv4 as IPv4-mapped IPv6. */
struct net_address {
        uint8_t bytes[16];
};

/* Reads an IPv4 address of four decimal numbers, or an IPv6 address without brackets and zone. "127.1" and "2130706433" are names, not
 * addresses: what they resolve to is checked like any other. */
NODISCARD bool net_address_parse(struct slice text, struct net_address *ret);
/* False for families other than AF_INET and AF_INET6. */
NODISCARD bool net_address_of(const struct sockaddr_storage *a, struct net_address *ret);
/* An IPv4-mapped address gives an AF_INET address, so that it is dialled as what it is. Returns the length of the address. */
socklen_t net_address_to(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret);
/* Writes the canonical text; an IPv4-mapped address as IPv4. */
void net_address_text(const struct net_address *a, char ret[static NET_ADDRESS_TEXT_BYTES]);

/* Is the address one that everybody means when they say "the Internet"? Private, loopback, link-local, documentation, multicast and reserved
 * addresses are not, nor are IPv6 addresses that carry an IPv4 address to somebody who unpacks it. */
NODISCARD bool net_address_is_public(const struct sockaddr_storage *a);
NODISCARD bool net_is_public(const struct net_address *a);
/* Is it an address at which the machines of a cloud tell their secrets to whoever asks? Some of these look public. */
NODISCARD bool net_is_metadata(const struct net_address *a);
/* Finds the IPv4 address that a translator or relay would take out of an IPv6 address (NAT64, 6to4, IPv4-compatible). */
NODISCARD bool net_address_embedded(const struct net_address *a, struct net_address *ret);

/* Reads "10.0.0.0/8", "fd00::/8" or an address alone. -EINVAL: not a range, or bits behind the length are set. */
NODISCARD int net_cidr_parse(struct slice text, struct net_cidr *ret);
NODISCARD bool net_cidr_is_valid(const struct net_cidr *c);
NODISCARD bool net_cidr_has(const struct net_cidr *c, const struct net_address *a);
void net_cidr_text(const struct net_cidr *c, char ret[static NET_ADDRESS_TEXT_BYTES]);

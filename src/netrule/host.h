/* host: names and literal addresses, in the one spelling in which rules are compared with them. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

#define NET_HOST_MAX 253 /* bytes: the longest name that DNS can ask for */

/* Gives a host as it comes from a client: lower case, no dots at the end, no brackets, an IP literal in its canonical spelling (an
 * IPv4-mapped one stays IPv6: a rule for 127.0.0.1 is not one for ::ffff:127.0.0.1). The result lives in the arena.
 * -EINVAL: empty, longer than NET_HOST_MAX, empty labels, an IPv6 literal that is none or has a zone, or any character but ASCII letters,
 * digits, '-', '_' and '.'. So a host has neither blanks nor wildcards. */
NODISCARD int net_host_normalize(struct arena *a, struct slice host, struct slice *ret);
/* Is the host as net_host_normalize gives it? */
NODISCARD bool net_host_is_normal(struct slice host);

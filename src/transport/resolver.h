/* resolver: looks a host name up without blocking its caller. A literal address is answered at once. */
#pragma once

#include "base/err.h"

#include <netdb.h>

struct resolver;

/* Begins to look up. Returns NULL with *err filled when no thread can be had. */
NODISCARD struct resolver *resolver_new(const char *host, uint16_t port, struct err *err);
/* Gives the resolver up; a lookup that still runs ends by itself. NULL is fine; returns NULL. */
struct resolver *resolver_free(struct resolver *r);
int resolver_fd(const struct resolver *r); /* readable when there is a result */
/* Returns 0 with the addresses, which belong to the resolver, or -errno with *err filled. */
NODISCARD int resolver_result(struct resolver *r, const struct addrinfo **ret, struct err *err);

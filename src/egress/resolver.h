/* resolver: the addresses of a name, from the machine's hosts file and name servers, with c-ares. Never waits, and gives up after
 * LIMIT_EGRESS_RESOLVE_MS. */
#pragma once

#include "base/slice.h"
#include "loop/loop.h"

#include <sys/socket.h>

struct resolver;
struct looker; /* somebody whose lookups are limited together: LIMIT_EGRESS_LOOKUPS */
struct lookup;

NODISCARD int resolver_new(struct loop *l, struct resolver **ret);
struct resolver *resolver_free(
        struct resolver *r); /* NULL is fine; returns NULL. Lookups under way must have been cancelled */

/* A lookup that was cancelled counts until c-ares has let go of it, also after looker_free, which returns NULL. */
NODISCARD struct looker *looker_new(void);
struct looker *looker_free(struct looker *l);

/* The addresses are valid during the call. When there are none, `count` is 0. */
typedef void (*lookup_fn)(void *arg, const struct sockaddr_storage *addresses, size_t count);

/* Looks up a name that is no address. Calls `fn` later, never before this returns. Beyond the limit of the looker there are no
 * addresses. */
NODISCARD struct lookup *resolver_lookup(struct resolver *r, struct looker *looker, struct slice name,
                                         uint16_t port, lookup_fn fn, void *arg);
struct lookup *lookup_cancel(struct lookup *l); /* NULL is fine; returns NULL; `fn` is not called any more */

/* Reads an address as text. Returns false when the text is a name. */
NODISCARD bool resolver_literal(struct slice text, uint16_t port, struct sockaddr_storage *ret);

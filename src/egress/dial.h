/* dial: connects to one of several addresses. They are tried in their order, each some time after the one before or at once when that one
 * has failed; the first connection wins. */
#pragma once

#include "loop/loop.h"

#include <sys/socket.h>

struct dial;

/* `fd` is connected, not blocking, and the callee's; or it is -1, and `why` is the -errno of the last failure. */
typedef void (*dial_fn)(void *arg, int fd, int why);

/* Calls `fn` once, perhaps before it returns. Copies the addresses. Returns what dial_free takes until then, or NULL when `fn` was
 * called. */
NODISCARD struct dial *dial_start(struct loop *l, const struct sockaddr_storage *addresses, size_t count,
                                  dial_fn fn, void *arg);
struct dial *dial_free(struct dial *d); /* NULL is fine; returns NULL; makes no call */

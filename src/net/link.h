/* link: the socket to the server: messages in, messages out.
 *
 * What waits to be sent is bounded by the credit that the server has given, so appending never fails for want of room.
 */
#pragma once

#include "base/buf.h"
#include "wire/netmsg.h"

struct link {
        int fd; /* not blocking */
        struct buf in, out;
        size_t sent; /* bytes at the front of `out` that are gone */
};

void link_init(struct link *l, int fd);
void link_release(struct link *l);

/* Reads once and hands out whole messages until `take` returns negative. 0; -EPIPE at the end; other -errno. */
NODISCARD int link_read(struct link *l, int (*take)(void *arg, const struct netmsg *m), void *arg);
/* 0 also when the socket takes no more now: link_has_output says so. */
NODISCARD int link_flush(struct link *l);

static inline bool link_has_output(const struct link *l)
{
        return l->out.n > 0;
}

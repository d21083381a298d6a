/* link: reads messages from the server's socket, and queues and sends messages to it.
 *
 * The server's credit bounds what can be queued, so appending to the queue never fails.
 */
#pragma once

#include "base/buf.h"
#include "wire/netmsg.h"

struct link {
        int fd; /* not blocking */
        struct buf in, out;
        size_t sent; /* bytes at the front of `out` that were sent already */
};

void link_init(struct link *l, int fd);
void link_release(struct link *l);

/* Reads from the socket once, and passes each whole message to `take`. Returns 0; -EPIPE when the server has closed the socket; the
 * error of `take`, which stops at that message; or another -errno. */
NODISCARD int link_read(struct link *l, int (*take)(void *arg, const struct netmsg *m), void *arg);
/* Sends as much as the socket takes. Returns 0, also when something is left (link_has_output), or -errno. */
NODISCARD int link_flush(struct link *l);

static inline bool link_has_output(const struct link *l)
{
        return l->out.n > 0;
}

/* outlet: bytes to be written to a descriptor of this program, without blocking and without changing the flags of the descriptor.
 *
 * A descriptor may be shared with other programs, so O_NONBLOCK is not set: poll says when a piece of PIPE_BUF bytes fits.
 */
#pragma once

#include "base/buf.h"

#include <poll.h>

struct outlet {
        int fd;
        struct buf bytes;
        size_t at;
        bool is_broken; /* a write has failed: later bytes are dropped */
        int os_errno;   /* the errno of the write that failed */
};

/* OUTLET_MAX_BYTES is enough: when the outlet is full the client is paused, and at most one message more arrives. An outlet with
 * OUTLET_FULL_BYTES is full: the caller asks for no more output. */
#define OUTLET_MAX_BYTES ((size_t)256 * 1024 * 1024)
#define OUTLET_FULL_BYTES ((size_t)1024 * 1024)

void outlet_init(struct outlet *o, int fd);
void outlet_release(struct outlet *o);
void outlet_put(struct outlet *o, const void *bytes, size_t n);
/* Writes as many bytes as fit now. */
void outlet_flush(struct outlet *o);
static inline size_t outlet_waiting(const struct outlet *o)
{
        return o->bytes.n - o->at;
}

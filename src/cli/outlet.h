/* outlet: what is to be written to one of our own descriptors, without blocking and without changing how it is open.
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
        bool is_broken; /* nobody reads it any more: what comes is dropped */
        int os_errno;   /* of the write that failed */
};

#define OUTLET_FULL_BYTES ((size_t)1024 * 1024) /* from here on no more output is asked for */

void outlet_init(struct outlet *o, int fd);
void outlet_release(struct outlet *o);
void outlet_put(struct outlet *o, const void *bytes, size_t n);
/* Writes what fits now. */
void outlet_flush(struct outlet *o);
static inline size_t outlet_waiting(const struct outlet *o)
{
        return o->bytes.n - o->at;
}

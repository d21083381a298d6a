/* duct: bytes from one descriptor to another, as they come, until the first one ends.
 *
 * The descriptors are sockets, pipes or terminals, and may be shared with other programs: O_NONBLOCK is not set on them, and nothing
 * here blocks. The end of the first descriptor is passed on: when all its bytes are written, the second one, if it is a socket, is
 * shut for writing. At most DUCT_BYTES wait in a duct, and what comes of one more read.
 *
 * The program must ignore SIGPIPE.
 */
#pragma once

#include "base/buf.h"

#define DUCT_BYTES ((size_t)256 * 1024)
#define DUCT_READ_BYTES ((size_t)64 * 1024)
#define DUCT_TURNED_BYTES (2 * DUCT_READ_BYTES) /* the most that `turn` may append for one read */
/* Once the first duct of a pair is over, the second one is given up when it has moved nothing for this time. */
#define DUCT_QUIET_MS 10000

struct duct {
        int from, to;
        /* Appends to *out what is to be written for these bytes, which the function may change. Returns 0, or a negative number: the
         * duct then ends behind what is in *out. NULL: the bytes pass as they are. */
        int (*turn)(void *arg, char *bytes, size_t n, struct buf *out);
        void *arg;
        bool is_end_kept; /* the end of `from` is not passed on */
        /* The members below are the state. */
        struct buf bytes; /* the first `at` are written */
        size_t at;
        bool has_ended; /* nothing more comes from `from` */
        bool is_over;   /* everything is written and the end passed on, or `to` takes nothing more: */
        bool is_cut;
};

void duct_init(struct duct *d, int from, int to);
void duct_release(struct duct *d);

static inline size_t duct_waiting(const struct duct *d)
{
        return d->bytes.n - d->at;
}
/* Appends bytes behind those that wait. Returns 0 or -ENOBUFS. */
NODISCARD int duct_put(struct duct *d, struct slice bytes);

/* Moves bytes through both until `back` is over. `there` may be over before: then `back` still moves what comes. Returns 0, or
 * -ETIMEDOUT after DUCT_QUIET_MS. */
NODISCARD int duct_pair_run(struct duct *there, struct duct *back);

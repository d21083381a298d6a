/* deltas: cuts output into pieces for events: each is valid UTF-8 and at most DELTA_BYTES_MAX bytes long.
 *
 * A character that is split between two reads waits for its other bytes. A byte that belongs to no character becomes U+FFFD. After
 * DELTAS_MAX pieces the rest is dropped; the event of the end has the transcript.
 */
#pragma once

#include "base/slice.h"

#define DELTA_BYTES_MAX 8192
#define DELTAS_MAX 10000

struct deltas {
        char rest[4]; /* the beginning of a character whose other bytes have not come yet */
        size_t rest_n;
        unsigned count; /* how many pieces were given out */
};

typedef void (*deltas_put)(void *arg, struct slice piece);

/* Takes bytes of the output, and gives out what is complete. */
void deltas_feed(struct deltas *d, struct slice bytes, deltas_put put, void *arg);
/* Gives out what is left as U+FFFD: the output has ended, or bytes of it are missing here. */
void deltas_flush(struct deltas *d, deltas_put put, void *arg);

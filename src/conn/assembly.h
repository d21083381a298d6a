/* assembly: the memory that large incoming messages share.
 *
 * A message up to LIMIT_ASSEMBLY_FREE_BYTES needs no share. A larger message claims twice the bytes that have arrived, again
 * and again as it grows: a peer that only announces a large message takes no memory from others. When no share is available the
 * connection is not read until other messages are complete. A holder that is slow while others wait is closed.
 */
#pragma once

#include "base/list.h"
#include "loop/loop.h"

/* The share of one connection. */
struct assembly_share {
        struct list link;                              /* assembly::waiting or ::holding */
        uint64_t bytes;                                /* bytes granted */
        uint64_t wanted;                               /* bytes asked for while the share waits */
        uint64_t since;                                /* assembly::window when the share was first granted */
        uint64_t seen;                                 /* bytes of the message that arrived in this window */
        bool is_whole;                                 /* the message is complete */
        void (*granted)(struct assembly_share *share); /* called when a share that waited is granted */
        /* Called when the message arrives too slowly while others wait: the connection must be closed. */
        void (*too_slow)(struct assembly_share *share);
};

struct assembly {
        struct loop *loop;
        uint64_t used;                    /* bytes granted to all shares */
        uint64_t window;                  /* the number of the present window */
        struct assembly_share *exceeding; /* the share that may exceed the total, or NULL */
        struct list waiting, holding;     /* assembly_share::link */
        struct timer *timer;
};

void assembly_init(struct assembly *a, struct loop *loop);
void assembly_end(struct assembly *a);
void assembly_share_init(struct assembly_share *share, void (*granted)(struct assembly_share *share),
                         void (*too_slow)(struct assembly_share *share));

/* Asks for a share of at least `bytes`. Returns true when it is granted now; false when it must wait: then `granted` is called
 * later. */
bool assembly_claim(struct assembly *a, struct assembly_share *share, uint64_t bytes);
/* Asks for the first share of a message, without waiting: returns false when `bytes` are not available now. */
NODISCARD bool assembly_try(struct assembly *a, struct assembly_share *share, uint64_t bytes);
/* Gives the share back and stops waiting. A share that holds nothing is fine. */
void assembly_release(struct assembly *a, struct assembly_share *share);

/* pipes: pipes through which splice(2) moves bytes from one connection to another. Few are needed: a connection has one only while more
 * is on its way than one read takes. */
#pragma once

#include "base/compat.h"

#define PIPES_BYTES (256 * 1024) /* the most that one of them holds */

struct pipe {
        int in, out; /* in: written; out: read */
};

/* Takes an empty pipe. Returns NULL when there are enough already, or the kernel has none. */
NODISCARD struct pipe *pipes_take(void);
/* Gives a pipe back; one that still holds bytes is closed. NULL is fine; returns NULL. */
struct pipe *pipes_give(struct pipe *p, bool is_empty);
void pipes_release(void);

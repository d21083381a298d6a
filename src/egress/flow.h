/* flow: bytes on their way from one socket to another.
 *
 * What the receiver does not take waits here, and nothing more is read until it has gone: a slow receiver holds up its own sender, and
 * costs one read's memory. Little is copied; when reads come back full, the bytes are spliced through a pipe.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

#define FLOW_ENDLESS UINT64_MAX

struct pipe;

struct flow {
        int from, to;   /* not blocking; borrowed */
        uint64_t left;  /* bytes that may still be read from `from`; FLOW_ENDLESS: up to its end */
        uint64_t bytes; /* how many have been passed on */
        bool has_ended; /* `from` has no more */
        char *kept;     /* copied, and not yet taken by `to` */
        size_t kept_n, kept_at, kept_room;
        struct pipe *pipe;
        size_t in_pipe;
        unsigned full_reads; /* in a row */
};

void flow_init(struct flow *f, int from, int to, uint64_t left);
void flow_release(struct flow *f); /* what waits is lost */

/* Puts bytes behind those that wait. The caller bounds them. */
void flow_give(struct flow *f, struct slice bytes);
/* Passes on what is there, up to an amount that is fair to others. Returns 0, or the -errno of either socket. */
NODISCARD int flow_run(struct flow *f);

/* Does something wait for `to`? */
static inline bool flow_is_pending(const struct flow *f)
{
        return f->kept_at < f->kept_n || f->in_pipe > 0;
}

static inline bool flow_wants_read(const struct flow *f)
{
        return !f->has_ended && f->left > 0 && !flow_is_pending(f);
}

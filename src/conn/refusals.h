/* refusals: limits how often refused connections are logged.
 *
 * Anybody who can reach the listener can cause refusals without end, and each would be a line of the log. So only a few of
 * each kind are logged in a span of time; at the end of the span one line says how many more there were.
 */
#pragma once

#include "loop/loop.h"

enum refusal {
        REFUSAL_ACCEPT,     /* no descriptor or no memory for a connection */
        REFUSAL_CONNECTION, /* a limit of ours was reached */
        REFUSAL_PEER,       /* the peer of a unix socket is not accepted */
        REFUSAL_UPGRADE,    /* authentication failed */
        REFUSAL_KINDS
};

struct refusals {
        struct refusal_count {
                enum refusal kind;
                unsigned logged,
                        more;      /* refusals in this span that were logged, and that were only counted */
                struct timer *end; /* runs out at the end of the span */
        } counts[REFUSAL_KINDS];
};

void refusals_init(struct refusals *r, struct loop *loop);
void refusals_release(struct refusals *r); /* logs the counts that were not logged yet */

/* Counts a refusal. Returns whether the caller must log it, as the event that refusal_event names. */
NODISCARD bool refusal_must_log(struct refusals *r, enum refusal kind);
NODISCARD const char *refusal_event(enum refusal kind);

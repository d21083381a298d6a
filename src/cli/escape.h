/* escape: finds the escapes of a person in what is typed on a terminal: ~. and ~? at the beginning of a line, as ssh knows them.
 *
 * A paste that the terminal marks as one, because the far program has asked for that (bracketed paste), has no escapes. Pure. The input
 * may be split anywhere.
 */
#pragma once

#include "base/compat.h"

enum escape_wish { ESCAPE_NONE, ESCAPE_LEAVE, ESCAPE_HELP };

struct escape {
        bool is_off;    /* there are no escapes: what is typed is no terminal's */
        bool in_line;   /* the last byte was not the end of a line */
        bool has_tilde; /* a ~ at the beginning of a line is held back */
        bool in_paste;  /* between the marks of a paste */
        size_t matched; /* how many bytes of the next mark were seen */
};

/* Copies what is for the command from `in` to `out`, which has room for n + 1 bytes. Returns how many bytes that are. *ret_used is
 * how many bytes of `in` were taken: all, unless there was an escape, which *ret_wish names. `~~` gives one ~. */
size_t escape_filter(struct escape *e, const char *in, size_t n, char *out, size_t *ret_used,
                     enum escape_wish *ret_wish);

/* escape: finds the escapes of a person in what is typed on a terminal: ~. and ~? at the beginning of a line, as ssh knows them.
 *
 * Pasted text has no escapes, if the terminal marks it as a paste; it does so when the remote program has asked for that (bracketed
 * paste). These functions make no system calls. The input may be split anywhere.
 */
#pragma once

#include "base/compat.h"

enum escape_wish { ESCAPE_NONE, ESCAPE_LEAVE, ESCAPE_HELP };

struct escape {
        bool is_off;    /* there are no escapes, because the input is not typed on a terminal */
        bool in_line;   /* the last byte was not the end of a line */
        bool has_tilde; /* a ~ at the beginning of a line is held back */
        bool in_paste;  /* the next byte is between the marks of a paste */
        size_t matched; /* how many bytes of the next mark were seen */
};

/* Copies the bytes for the command from `in` to `out`, which has room for n + 1 bytes. Returns how many bytes were copied.
 * *ret_used is how many bytes of `in` were taken: all, unless there was an escape, which *ret_wish names. `~~` gives one ~. */
size_t escape_filter(struct escape *e, const char *in, size_t n, char *out, size_t *ret_used,
                     enum escape_wish *ret_wish);

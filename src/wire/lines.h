/* lines: newline-delimited messages, for stdio.
 *
 * LF or CRLF ends a line; lines of only blanks are skipped; the last line may lack its newline. Pure functions; the input may
 * be split anywhere.
 */
#pragma once

#include "base/slice.h"

#include <sys/types.h>

struct line_decoder {
        size_t max_line;
        size_t scanned; /* bytes already searched for a newline */
};

void line_decoder_init(struct line_decoder *d, size_t max_line);

/* Takes the next line. Returns how many bytes were consumed, and *ret is the line without its end, or has p == NULL when only blank
 * lines were skipped; 0 when more bytes are needed; -EMSGSIZE when the line is longer than max_line. `at_eof`: no more bytes will
 * come, so the rest is a line. */
NODISCARD ssize_t line_next(struct line_decoder *d, struct slice in, bool at_eof, struct slice *ret);

/* lines: newline-delimited messages, for stdio.
 *
 * LF or CRLF ends a line; lines of only blanks are skipped; the last line may lack its newline. Pure, any split.
 */
#pragma once

#include "base/slice.h"

#include <sys/types.h>

struct line_decoder {
        size_t max_line;
        size_t scanned; /* bytes already searched for a newline */
};

void line_decoder_init(struct line_decoder *d, size_t max_line);

/* > 0: bytes consumed; ret is the line without its end, or empty with p == NULL when only blank lines were skipped.
 * 0: need more. -EMSGSIZE: the line is over max_line. At end of input call with `at_eof`: the rest is a line. */
NODISCARD ssize_t line_next(struct line_decoder *d, struct slice in, bool at_eof, struct slice *ret);

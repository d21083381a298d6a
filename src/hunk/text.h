/* text: white space and look-alikes of Unicode, as patches are compared with files.
 *
 * White space is what has the property White_Space. Bytes that are not UTF-8 are never white space and stand for themselves. */
#pragma once

#include "base/slice.h"

/* Returns the length of the white space character that the text begins or ends with; 0 when another character stands there. */
NODISCARD size_t text_space_at_start(struct slice s);
NODISCARD size_t text_space_at_end(struct slice s);

/* Return the text without the white space at its start, at its end, at both. */
struct slice text_trim_start(struct slice s);
struct slice text_trim_end(struct slice s);
struct slice text_trim(struct slice s);

/* Writes the text with typographic dashes, quotation marks and spaces as those of ASCII. `ret` has room for s.n bytes; returns how
 * many were written: at least a third of s.n. */
size_t text_map(struct slice s, char *ret);

/* record: a list of changes as a line of JSON, for the journal (store.h).
 *
 * A record has what takes the changes back: the states before and after, and the old contents, in full or as edits over the new ones. It
 * has new contents only of files that the server writes in place, so that a mixture of old and new can be recognised.
 *
 * Records are read from files that may be damaged or forged. What is read is checked as far as it can be: paths are absolute
 * and without "..", temporary names have our form and lie beside the file that they belong to.
 */
#pragma once

#include "patch/change.h"

#define RECORD_MAX ((size_t)128 * 1024 * 1024) /* bytes of a record; longer ones are not written */

/* Appends the record and an LF. Returns 0, or -ENOBUFS when it is too long for `out`. */
NODISCARD int record_write(struct buf *out, const struct changes *c);
/* Reads a record into the arena. `text` must have the padding of a buf. Returns 0, or -EINVAL. */
NODISCARD int record_read(struct arena *a, struct slice text, struct changes *ret);

/* place: where the chunks of an update belong in a file.
 *
 * A line of the file ends with LF, CRLF or a lone CR. Chunks are looked for one after the other, each behind the one before. A
 * context text (behind "@@ ") is looked for first; then the old lines, as a block. Lines are compared at four levels: exact,
 * without white space at the end, without white space at both ends, and the last with typographic characters taken for those
 * of ASCII (text.h). The strictest level that has a hit anywhere behind the last place wins, and its first hit is the place. A chunk that
 * only adds lines adds them at the end of the file. All places are found on the old text.
 *
 * The file is read at most twice, in sequence. Memory grows with the hunk only: not with the file, and not with the length of a
 * line. The bytes may be anything: those that are not UTF-8 are equal only to themselves.
 */
#pragma once

#include "hunk/edits.h"
#include "hunk/parse.h"
#include "hunk/reader.h"

/* Finds the places of a HUNK_UPDATE in what the reader reads. `path` is the file as messages name it (absolute). Returns
 * 0: *ret is what makes the new text of the old one; its slices lie in the arena.
 * -ENOENT with PATCH_ERROR_CONTEXT or PATCH_ERROR_LINES: a chunk has no place; the message is that of the reference program.
 * Otherwise *ret_error is PATCH_ERROR_READ, and *err what the reader said, or -ESTALE when the file has changed between the two
 * reads. A change that is not noticed here leads to edits that fit no text of the file: a caller that cannot keep others from writing
 * compares digests. */
NODISCARD int place_find(struct arena *a, const struct hunk *h, struct slice path, const struct reader *r,
                         struct edits *ret, struct patch_error *ret_error, struct err *err);

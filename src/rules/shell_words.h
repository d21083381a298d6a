/* shell_words: words as a shell splits and quotes them; nothing is expanded. Pure. */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/* Splits a text into words: quotes and backslashes as in POSIX, `#` at the beginning of a word starts a comment. The words are in the
 * arena. Returns 0, or -EINVAL for a quote that does not end or a backslash at the end. */
NODISCARD int shell_words_split(struct arena *a, struct slice text, struct slice **ret, size_t *ret_count);

/* Returns the words in one line, quoted where a shell needs that, printable, in the arena; a long line is cut. */
NODISCARD const char *shell_words_show(struct arena *a, const struct slice *words, size_t count);

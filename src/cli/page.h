/* page: a question on a terminal: texts of others, on lines that cannot be taken for ours.
 *
 * A line that is too long is broken here, with a mark, because the terminal would break it without one: then a text with the right
 * number of blanks could look like lines of ours. Control characters are shown escaped.
 */
#pragma once

#include "base/arena.h"

#include <stdio.h>

struct page {
        FILE *to;
        struct arena *arena;
        size_t columns; /* of the terminal */
        size_t at;      /* how many columns of the line are used */
};

/* Begins a page on the terminal `fd`, for which `to` was opened. */
void page_begin(struct page *p, FILE *to, int fd, struct arena *a);
/* Writes a text without control characters. */
void page_put(struct page *p, const char *text);
/* Writes a text with its control characters escaped, and all of it: what is not shown cannot be decided about. */
void page_text(struct page *p, const char *text);
/* Writes a blank and one word of a command so that its borders can be seen. */
void page_word(struct page *p, const char *word);
/* Writes a line that gives the text of someone else a name. */
void page_line(struct page *p, const char *name, const char *text);
void page_end_line(struct page *p);

/* typed_answer: reads what a person types as an answer to a question on a terminal. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* A terminal holds 4,095 bytes of a line and its newline, so one read takes a whole line, and nothing of it is left over that
 * could be taken for the next answer. */
#define TYPED_ANSWER_BYTES (4096 + 1)

/* Reads one line into `line`, which has room for TYPED_ANSWER_BYTES, without its newline. Returns what read() returns; `line` is a text
 * when that is above 0. */
ssize_t typed_answer_read(int fd, char *line);
/* Whole words only, in either case: `always not` is not `always`. */
bool typed_answer_is(const char *line, const char *letter, const char *word);

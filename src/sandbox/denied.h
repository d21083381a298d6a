/* denied: was it the sandbox that made a command fail? A guess from what it printed. Pure.
 *
 * Three texts are searched for a few phrases: stdout (or the terminal), stderr, and both in the order of arrival, each in
 * lower case. They are not needed as texts: the pieces of output are fed as they lie in memory, oldest first, in one pass.
 */
#pragma once

#include "base/slice.h"

#define DENIED_TEXT_MAX (1024 * 1024) /* of the retained output, the newest */
#define DENIED_SETTLE_MS 20 /* so long the exit of a failed command waits for one more piece of output */

#define DENIED_STATES_MAX 176
#define DENIED_CLASSES_MAX 32

/* About 6 KiB; plain data, nothing to release. */
struct denied_scan {
        uint8_t found; /* the number of a phrase that was found, from 1 on; 0: none */
        uint8_t at[2]; /* where the search stands in stdout and in stderr, and … */
        uint8_t at_both;
        uint8_t states, classes;
        uint8_t class_of[256];
        uint8_t next[DENIED_STATES_MAX][DENIED_CLASSES_MAX];
};

/* With `is_offline`, a network that cannot be reached counts as well. */
void denied_scan_init(struct denied_scan *s, bool is_offline);
void denied_scan_feed(struct denied_scan *s, bool is_stderr, struct slice bytes);

/* For another text. */
void denied_scan_reset(struct denied_scan *s);

/* The verdict on a command that was started with a sandbox and has exited. */
NODISCARD bool denied_by_output(const struct denied_scan *s, int exit_code);

/* What one line of output says of a refusal: also a guess. */
struct denied_line {
        const char *operation; /* "write", "connect" or "unknown" */
        struct slice path;     /* absolute, in the line; p == NULL: the line names none */
};

/* False when the line holds no phrase. */
NODISCARD bool denied_line_read(struct denied_scan *s, struct slice line, struct denied_line *ret);

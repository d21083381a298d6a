/* apply_patch_show: what `farhand apply-patch` prints: diffs, in colour on a terminal, and reports for programs. */
#pragma once

#include "base/buf.h"
#include "patch/apply.h"

#include <stdio.h>

/* Writes a diff to a stream piece by piece; or keeps it, for a report. */
struct diff_output {
        struct buf *kept; /* NULL: stdout */
        bool is_terminal; /* stdout is a terminal: bytes that could control it are escaped */
        bool has_colours;
        bool is_in_line; /* the last piece did not end with its line */
};

/* Returns an output to stdout: in colour when it is a terminal that wants them. */
NODISCARD struct diff_output diff_output_begin(void);
/* The sink of patch_preview; `arg` is the output. */
int diff_output_write(void *arg, struct slice piece, struct err *err);

/* Writes a text to `to`. When that is a terminal, bytes that could control it are escaped. */
void apply_patch_say(FILE *to, const char *text);

/* Prints the result as one line of JSON. `diff` may be NULL. Returns false when stdout cannot be written. */
bool apply_patch_report(const struct patch_result *r, const char *what, const struct buf *diff);

/* refused: what `farhand sandbox` prints after a failure: which rule refused what, and the option that would allow it.
 *
 *     refused: write .git/index.lock (protected; see --git)
 *
 * What the command tried is guessed from its output (denial/denials.h). Whether and why the sandbox refuses it is certain:
 * the plan that was in force says so (denial/refusal.h). What the plan allows is not printed.
 */
#pragma once

#include "base/buf.h"
#include "plan/plan.h"
#include "policy/rules.h"

struct refused {
        const struct plan *plan; /* the plan that was in force */
        bool is_landlock;        /* enforced by Landlock alone */
        const struct place *place;
        bool has_profile, is_workspace_write, has_git; /* the options of `farhand sandbox` */
        bool is_by_filter;                             /* the seccomp filter has killed the command */
        struct slice terminal, err;                    /* the newest output of the command */
};

/* Appends a line for each refusal, at most LIMIT_REFUSED_LINES, and one more for the rest; nothing when nothing is known.
 * `is_open`: the output before has no newline at its end. The lines contain no control characters. */
void refused_write(const struct refused *r, bool is_open, struct buf *out);

/* ask: asks the person at the terminal whether an action may be done. */
#pragma once

#include "approve/approve.h"

/* Shows the question on the controlling terminal and waits for an answer there, so that it works although stdin and stdout are
 * pipes. Without a terminal, at its end and after Ctrl-C the answer is no. Text of the question is shown with its control characters
 * escaped. */
NODISCARD enum approval_answer ask_on_terminal(const struct approval_question *q);
/* Asks on the terminal whether an action that the sandbox of `profile` (JSON) has denied may be run again without a sandbox. `denials`
 * is JSON, or NULL; `omitted` is how many denials it leaves out. The action of a patch must have its real paths. Returns whether the
 * action may be run. */
NODISCARD bool ask_after_denial(const char *profile, const struct approval_action *action,
                                const char *denials, size_t omitted);

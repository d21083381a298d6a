/* ask: asks the person at the terminal whether an action may be done. */
#pragma once

#include "approve/approve.h"

/* Shows the question on the controlling terminal and waits for an answer there, so that it works although stdin and stdout are
 * pipes. Without a terminal, at its end and after Ctrl-C the answer is no. Text of the question is shown with its control characters
 * escaped. */
NODISCARD enum approval_answer ask_on_terminal(const struct approval_question *q);
/* An action was denied by the sandbox of `profile` (JSON): asks on the terminal whether it may be run again without a sandbox.
 * `denials` is JSON, or NULL; so many others are `omitted`. Of a patch the real paths must be known. Returns whether it may. */
NODISCARD bool ask_after_denial(const char *profile, const struct approval_action *action,
                                const char *denials, size_t omitted);

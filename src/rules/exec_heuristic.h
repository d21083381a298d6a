/* exec_heuristic: what is decided about a command that no rule matches. Pure.
 *
 * The decision is EXEC_PROMPT for `rm` with a force option, also behind `sudo` and `env`, in the action of `trap`, and in the text of `sh
 * -c` and its like, where `rm` may stand behind `if`, in a pipe, a subshell or a substitution. At most EXEC_HEURISTIC_DEPTH such layers are
 * seen through; a command that is hidden deeper is EXEC_PROMPT, whatever it is. Every other command is EXEC_ALLOW: the sandbox is the
 * boundary, not this.
 */
#pragma once

#include "rules/exec_rules.h"

#define EXEC_HEURISTIC_DEPTH 8

/* The words are the program and its arguments. */
NODISCARD enum exec_decision exec_heuristic_decide(const struct slice *words, size_t count);

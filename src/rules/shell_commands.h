/* shell_commands: the commands that stand in the text of a shell script, as far as their words are literal. Pure.
 *
 * This is a search for commands, not a parser of the shell: it also finds those behind `if`, `do` and `|`, in subshells, functions and
 * substitutions, and it finds them in a text with mistakes. Words that the shell would compute (`$x`, `$(…)`) are left out, and so are
 * redirections, assignments, comments and here-documents. What it finds may not run; what it does not find may run: it can show that
 * a text is suspicious, and never that it is safe.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/* Calls `found` for each command, with its literal words; the words are in the arena. Ends when `found` returns true, and returns true
 * then. A text whose substitutions are nested deeper than SHELL_NESTING_MAX gives true too: an honest script is not nested so deep. */
#define SHELL_NESTING_MAX 32
NODISCARD bool shell_commands_any(struct arena *a, struct slice text,
                                  bool (*found)(void *arg, const struct slice *words, size_t count),
                                  void *arg);

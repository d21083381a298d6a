/* exec_asker: asks the person at the terminal about the programs that a command wants to start, one after the other, while the command's
 * output goes on. */
#pragma once

#include "cli/terminal.h"
#include "farhand/farhand.h"

struct exec_asker;

/* `terminal` belongs to the caller. While a question is shown the terminal is not raw. */
struct exec_asker *exec_asker_new(struct terminal *terminal);
void exec_asker_free(struct exec_asker *a); /* NULL is fine */

/* Returns whether there is a terminal on which somebody can be asked. */
NODISCARD bool exec_asker_is_possible(void);

/* Takes what farhand_process_events.on_exec tells. Without a terminal a question is answered with no. */
void exec_asker_take(struct exec_asker *a, struct farhand_process *p, const struct farhand_exec *exec);

/* Returns the terminal while a question is shown: nobody else may read it then. -1: there is none. `a` may be NULL. */
NODISCARD int exec_asker_fd(const struct exec_asker *a);
/* Reads an answer. To be called when exec_asker_fd() is readable. */
void exec_asker_read(struct exec_asker *a);
/* Answers the question that is shown with no. */
void exec_asker_refuse(struct exec_asker *a);

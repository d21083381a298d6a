/* asker: asks the person at the terminal about the programs that a command wants to start and the hosts that it wants to reach, one after
 * the other, while the command's output goes on. */
#pragma once

#include "cli/terminal.h"
#include "farhand/farhand.h"

struct asker;

/* `terminal` belongs to the caller. While a question is shown the terminal is not raw. */
struct asker *asker_new(struct terminal *terminal);
void asker_free(struct asker *a); /* NULL is fine */

/* Returns whether there is a terminal on which somebody can be asked. */
NODISCARD bool asker_is_possible(void);

/* The answer "always" adds a network rule to this file, which is the caller's; with the port if `has_ports`. Without this call, or with
 * NULL, there is no such answer. */
void asker_use_rules(struct asker *a, const char *file, bool has_ports);

/* Take what farhand_process_events.on_exec and .on_network tell. Without a terminal a question is answered with no. */
void asker_take_exec(struct asker *a, struct farhand_process *p, const struct farhand_exec *exec);
void asker_take_network(struct asker *a, struct farhand_process *p,
                        const struct farhand_network_question *question);

/* Returns the terminal while a question is shown: nobody else may read it then. -1: there is none. `a` may be NULL. */
NODISCARD int asker_fd(const struct asker *a);
/* Reads an answer. To be called when asker_fd() is readable. */
void asker_read(struct asker *a);
/* Answers the question that is shown with no. */
void asker_refuse(struct asker *a);

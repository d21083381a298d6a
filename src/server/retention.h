/* retention: retained output of all processes together, and whose goes first when it is too much.
 *
 * Closed processes first, then those of detached sessions, then those of attached ones; within each, the one that has
 * been in its class longest.
 */
#pragma once

#include "server/task.h"

void retention_grew(struct task *t); /* its output has grown: others' (or its own oldest) may have to go */
void retention_leave(struct task *t);

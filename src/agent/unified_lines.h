/* unified_lines: the lines of `farhand unified`: lines of stdin become calls, and the results and events of calls become lines of
 * stdout. A line that cannot be understood is answered by an error line. */
#pragma once

#include "talk/talk.h"

struct lines;

struct lines *lines_new(void);
void lines_free(struct lines *t); /* after the table; NULL is fine */
/* Fills in the callbacks of the table, and the callbacks that ask questions. */
void lines_prepare(struct lines *t, struct unified_options *options, struct approvals_asker *asker);
/* Reads and writes lines until everything has ended (talk_run). Returns the exit code. */
int lines_run(struct lines *t, struct unified *table, struct approvals *approvals);

/* unified_talk: the conversation of `farhand unified`: lines of stdin become calls, and what comes of these becomes lines of stdout.
 *
 * Nothing blocks. When the reader of stdout is slow, neither stdin nor the servers are read until it has caught up. A line that cannot be
 * understood gets an error line. When stdin ends, open questions are answered with no, calls that are under way end by themselves, and
 * then all processes are ended.
 */
#pragma once

#include "unified/unified.h"

struct talk;

struct talk *talk_new(void);
void talk_free(struct talk *t); /* after the table; NULL is fine */
/* Fills in the callbacks of the table, and who is asked. */
void talk_prepare(struct talk *t, struct unified_options *options, struct approvals_asker *asker);
/* Reads lines and writes lines until stdin has ended and all processes and calls are over, or stdout is closed. Returns the exit code. */
int talk_run(struct talk *t, struct unified *table, struct approvals *approvals);

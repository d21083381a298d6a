/* exit_record: how a process ended, in words that can be told apart (EXTENSIONS.md). */
#pragma once

#include "server/task.h"

#define EXIT_RECORD_BYTES 192 /* about its size on the wire */

/* Members signal, coreDumped, reason, usage, and of a sandboxed one denials, of the object under construction. The process
 * must have exited. */
void exit_record_write(struct jsonw *w, const struct task *t);

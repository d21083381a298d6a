/* broker: the thread that decides about every start of a program below one command (docs/internals/intercept.md).
 *
 * It runs in the keeper of the command, whose other thread makes raw system calls only, so that libc belongs to this thread alone.
 * When it cannot go on it ends the whole process, and with it the command's tree: nothing runs undecided.
 */
#pragma once

#include "keeper/broker_start.h"

/* The thread's function; takes a malloc'd struct broker_start, and frees it. Returns when no process has the filter any more. */
void *broker_run(void *broker_start);

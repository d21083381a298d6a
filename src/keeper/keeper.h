/* keeper: the process that starts one command, waits for it, and owns everything that descends from it.
 *
 * All signals are blocked in a keeper. Once its command runs the keeper sleeps in one place, sigtimedwait on the signals that
 * wake it, so that no signal is missed.
 */
#pragma once

#include "base/compat.h"

/* Runs in the new process and ends it. All signals must be blocked and at their default disposition. */
NORETURN void keeper_run(void *keeper);

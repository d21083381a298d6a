/* stage: farhand-init, process 1 of a sandbox that bwrap has built. See box.h and sandbox/bwrap.h.
 *
 * A program of its own, linked statically: the view need not hold any library. It has no more privileges than the command
 * will have. Hears from the keeper what to start, looks whether the view is the one that was asked for, and goes on as the
 * init of every sandbox.
 */
#pragma once

#include "base/compat.h"

NORETURN void stage_run(int socket);

/* farhand_init: what farhand-init does, process 1 of a sandbox that bwrap has built (sandboxed.h, sandbox/bwrap.h).
 *
 * farhand-init is a program of its own and linked statically, because the view may hold no library. It has no more privileges than
 * the command will have. It hears from the keeper what to start, checks whether the view is the one that was asked for, and goes
 * on as the init of every sandbox does. Or it keeps the view alive for an fs helper, and starts nothing (fs_view.c).
 */
#pragma once

#include "base/compat.h"

NORETURN void farhand_init_run(int socket);

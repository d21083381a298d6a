/* pump: carries bytes, signals and the size of the window between us and a process of a server, until the process has ended. */
#pragma once

#include "cli/remote.h"

#define PUMP_FAILED 255         /* our own failure, as ssh has it */
#define PUMP_CANNOT_EXECUTE 126 /* the program may not be executed */
#define PUMP_NOT_FOUND 127      /* there is no such program */

/* Start the command, or go on with a process that runs, and stay until it is over. Return its exit code, or one of those above; then
 * stderr was told why. `may_leave`: by ~., SIGTERM or SIGHUP the command runs on, and the person is told how to come back. `argv` of a process that runs: its words, for
 * messages. */
NODISCARD int pump_run(struct remote *r, struct farhand *f, struct farhand_command *command, bool no_stdin,
                       bool may_leave);
NODISCARD int pump_attach(struct remote *r, struct farhand *f, const char *process_id,
                          const char *const *argv, bool is_tty);

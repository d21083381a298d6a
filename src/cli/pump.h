/* pump: carries bytes, signals and the size of the window between this program and a process of a server, until the process has
 * ended. */
#pragma once

#include "cli/remote.h"

#define PUMP_FAILED 255         /* farhand itself has failed; ssh uses the same code */
#define PUMP_CANNOT_EXECUTE 126 /* the program may not be executed */
#define PUMP_NOT_FOUND 127      /* there is no such program */

/* pump_run starts a command, and pump_attach goes on with a process that runs. Both stay until the process is over. They return its
 * exit code, or one of the codes above after they have printed why on stderr. With `may_leave` the command runs on after ~.,
 * SIGTERM or SIGHUP, and the person is told how to come back. *ret_was_denied (may be NULL) says whether the sandbox denied the command
 * something. `argv` of pump_attach is the command of the process, for messages. */
NODISCARD int pump_run(struct remote *r, struct farhand *f, struct farhand_command *command, bool no_stdin,
                       bool may_leave, bool *ret_was_denied);
NODISCARD int pump_attach(struct remote *r, struct farhand *f, const char *process_id,
                          const char *const *argv, bool is_tty);

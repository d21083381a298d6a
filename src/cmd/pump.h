/* pump: carries bytes, signals and the size of the window between us and a process of a server, until the process has ended. */
#pragma once

#include "cmd/remote.h"

#define PUMP_FAILED 255         /* our own failure, as ssh has it */
#define PUMP_CANNOT_EXECUTE 126 /* the program may not be executed */
#define PUMP_NOT_FOUND 127      /* there is no such program */

/* Starts the command, and stays until it is over. Returns its exit code, or one of those above; then stderr was told why. */
NODISCARD int pump_run(struct remote *r, struct farhand *f, struct farhand_command *command, bool no_stdin);

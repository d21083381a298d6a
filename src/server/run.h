/* run: runs the server, from its configuration to its exit code. */
#pragma once

#include "core/config.h"
#include "core/reload.h"

/* Runs the server until a signal or, on stdio, the end of input. Returns the exit code. Prints the URL on stdout. `config` must
 * have been checked; it changes when a SIGHUP has read `source` again. */
NODISCARD int server_run(struct config *config, const struct config_source *source);

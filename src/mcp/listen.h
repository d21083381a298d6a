/* listen: `farhand mcp --listen`, and the processes of its sessions, which are this program with the same options. */
#pragma once

#include "mcphttp/front.h"

/* Returns whether this process serves a session of a listener. The first call takes the variable away that says so, so that programs
 * which this process starts do not take themselves for such processes. */
NODISCARD bool listen_is_session(void);
/* Listens until a signal comes. `argv` is that of the subcommand. Returns the exit code. */
NODISCARD int listen_run(const struct front_wishes *w, int argc, char **argv);

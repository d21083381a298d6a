/* listen: `farhand mcp --listen`, and the processes of its sessions, which are this program with the same options. */
#pragma once

#include "mcphttp/front.h"

/* Whether this process is that of a session. The first call makes it one for good: what it starts is none. */
NODISCARD bool listen_is_session(void);
/* Listens until a signal comes. `argv` is that of the subcommand. Returns the exit code. */
NODISCARD int listen_run(const struct front_wishes *w, int argc, char **argv);

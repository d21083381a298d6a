/* install: `farhand mcp install CLIENT` and `farhand mcp uninstall CLIENT`: put our MCP server into the configuration of a client, and take
 * it away again. Each gets the argc and argv of the verb, and returns the exit code. */
#pragma once

#include "base/compat.h"

/* `takes` says whether `farhand mcp` takes these arguments; argv[0] is a name. When it does not, it has complained on stderr. */
int install_add(int argc, char **argv, bool (*takes)(int argc, char **argv));
int install_remove(int argc, char **argv);

/* mcp: `farhand mcp`: serves the tools of agents to one client of the Model Context Protocol, on stdin and stdout. Gets the argc and argv
 * of the subcommand, and returns the exit code. */
#pragma once

#include "base/compat.h"

int cmd_mcp(int argc, char **argv);

/* The reference's server of the tool shell by its own name: whether a program is called so, and what it does then. */
NODISCARD bool mcp_is_named_reference(const char *program);
int cmd_mcp_reference(int argc, char **argv);

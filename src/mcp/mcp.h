/* mcp: `farhand mcp`: serves the tools of agents to one client of the Model Context Protocol, on stdin and stdout. Gets the argc and argv
 * of the subcommand, and returns the exit code. */
#pragma once

int cmd_mcp(int argc, char **argv);

/* agent: the subcommands that do what the tools of a coding agent do. Each function gets the argc and argv of its subcommand and returns
 * the exit code. */
#pragma once

#include "base/compat.h"

struct patch_near;

/* `farhand apply-patch`. `near` does the requests about files of this machine without a sandbox. */
int agent_apply_patch(int argc, char **argv, const struct patch_near *near);

/* Returns whether the program was started under the name apply_patch or applypatch, through a link. */
NODISCARD bool apply_patch_is_named(const char *program);
/* The program of that name: its only argument, or else stdin, is a patch for files of this machine. It has no options. */
int apply_patch_main(int argc, char **argv, const struct patch_near *near);

/* Does exec_command, write_stdin and apply_patch for a program that asks by lines of JSON on stdin and reads the answers on stdout. */
int cmd_unified(int argc, char **argv);

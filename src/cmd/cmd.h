/* cmd: the subcommands of the machine where they run. Each gets its own argc and argv (argv[0] is its name) and returns the exit
 * code. Those that are clients of a server are in cli/cli.h. */
#pragma once

int cmd_apply_patch(int argc, char **argv);
int cmd_apply_patch_by_name(int argc, char **argv); /* started as apply_patch or applypatch */

int cmd_serve(int argc, char **argv);
int cmd_sandbox(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
/* This function is no subcommand: it runs when the program is started under the name codex-linux-sandbox, which is argv[0]. */
int cmd_linux_sandbox(int argc, char **argv);

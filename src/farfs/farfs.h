/* farfs: the subcommands that work on files of an environment. Each gets its own argc and argv (argv[0] is its name) and returns the
 * exit code. */
#pragma once

int cmd_cp(int argc, char **argv);
int cmd_fs(int argc, char **argv);

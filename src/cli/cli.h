/* cli: the subcommands that are clients of a server, and those that show and change the files that such clients read. Each function
 * gets the argc and argv of its subcommand (argv[0] is the name of the subcommand) and returns the exit code. */
#pragma once

int cmd_run(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_rules(int argc, char **argv);
int cmd_egress(int argc, char **argv);

/* cli: the subcommands that are clients of a server. Each gets its own argc and argv (argv[0] is its name) and returns the exit code. */
#pragma once

int cmd_run(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_env(int argc, char **argv);

/* cmd: the functions of the subcommands. Each gets its own argc and argv (argv[0] is its name) and returns the exit code. */
#pragma once

struct command {
        const char *name;
        const char *about;
        int (*run)(int argc, char **argv);
};

int cmd_run(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_fs(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_sandbox(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_env(int argc, char **argv);
/* Not a subcommand: runs when the program is started under the name codex-linux-sandbox, which is argv[0]. */
int cmd_linux_sandbox(int argc, char **argv);

/* cmd: the subcommands. Each gets its own argc and argv (argv[0] is its name) and returns the exit code. */
#pragma once

struct command {
        const char *name;
        const char *about;
        int (*run)(int argc, char **argv);
};

int cmd_serve(int argc, char **argv);
int cmd_sandbox(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

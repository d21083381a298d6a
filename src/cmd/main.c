/* main: which subcommand. Each has a file of its own; helper roles of the same executable will be chosen here too. */
#include "cmd/cmd.h"

#include "base/slice.h"

#include <fcntl.h>
#include <unistd.h>

static const struct command commands[] = {
        { "serve", "run the exec server", cmd_serve },
        { "exec-server", "the same, by the name that other clients know", cmd_serve },
        { "sandbox", "run a command here under a permission profile", cmd_sandbox },
        { "doctor", "say what can be enforced here, and what cannot", cmd_doctor },
};

static void print_help(FILE *to)
{
        fprintf(to,
                "farhand %s: run commands and touch files on another machine\n\nUsage: farhand COMMAND "
                "[OPTIONS]\n\n",
                FARHAND_VERSION);
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                fprintf(to, "  %-14s%s\n", commands[i].name, commands[i].about);
        fprintf(to, "\n`farhand COMMAND --help` explains one. farhand(1) explains all.\n");
}

/* A supervisor may start us without 0, 1 or 2. The next descriptor that we open must not become one of them. */
static int fill_stdio(void)
{
        int fd;
        do
                fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        while (fd >= 0 && fd <= STDERR_FILENO);
        return fd < 0 ? -1 : close(fd);
}

int main(int argc, char **argv)
{
        if (fill_stdio() < 0)
                return 1;
        const char *name = argc > 1 ? argv[1] : "";
        if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
                printf("farhand %s\n", FARHAND_VERSION);
                return 0;
        }
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
                print_help(stdout);
                return 0;
        }
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
                if (strcmp(name, commands[i].name) == 0)
                        return commands[i].run(argc - 1, argv + 1);
        if (argc > 1)
                fprintf(stderr, "error: unknown command '%s'\n\n", name);
        print_help(stderr);
        return 2;
}

/* verbs: finds a subcommand by its name and runs it: for main, and for subcommands that have subcommands of their own, their verbs
 * (`farhand fs ls`). A list of commands ends with name == NULL. */
#pragma once

#include "base/compat.h"

#include <stdio.h>

struct command {
        const char *name;
        const char *about;
        /* Gets an argv that begins with the name of the command. Returns the exit code. */
        int (*run)(int argc, char **argv);
};

struct verbs {
        const char *name;           /* "farhand fs" */
        const char *about;          /* one sentence */
        const struct command *list; /* the verbs */
};

/* Handles the arguments of a subcommand with verbs: runs the verb argv[1], or prints the help. Returns the exit code of the verb, 0
 * for help, or 2 after a message on stderr when there is no such verb. */
NODISCARD int verbs_run(const struct verbs *verbs, int argc, char **argv);

/* Returns the command of that name, or NULL. */
NODISCARD const struct command *verbs_find(const struct command *list, const char *name);
/* Prints a line for each command: its name and what it is about. */
void verbs_print(FILE *to, const struct command *list);
/* Prints "LEVEL NAME ABOUT" for each command, separated by tabs, and behind it the rows of the options of the command, as
 * args_parse prints them for --help-table. LEVEL is "command" for the commands of main and "verb" for verbs. Returns the exit
 * code. */
NODISCARD int verbs_print_rows(const char *level, const struct command *list);

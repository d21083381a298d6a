/* verbs: finds a subcommand by its name and runs it: for main, and for subcommands that have subcommands of their own, their verbs
 * (`farhand fs ls`). A list of commands ends with name == NULL. */
#pragma once

#include "base/compat.h"

#include <stdio.h>

struct command {
        const char *name;
        const char *about;
        int (*run)(int argc, char **argv); /* gets argv from its own name on, and returns the exit code */
};

struct verbs {
        const char *name;           /* "farhand fs" */
        const char *about;          /* one sentence */
        const struct command *list; /* each gets an argv that begins with its own name */
};

/* What a subcommand with verbs does with its arguments: runs the verb argv[1], or prints the help. Returns the exit code: that
 * of the verb, 0 for help, 2 when there is no such verb, which stderr is told. */
NODISCARD int verbs_run(const struct verbs *verbs, int argc, char **argv);

/* Returns the command of that name, or NULL. */
NODISCARD const struct command *verbs_find(const struct command *list, const char *name);
/* Prints a line for each: its name and what it is about. */
void verbs_print(FILE *to, const struct command *list);
/* Prints "LEVEL NAME ABOUT" for each, separated by tabs, and behind it the rows of its own options (base/args.h). LEVEL is
 * "command" for those of main and "verb" for those below. Returns the exit code. */
NODISCARD int verbs_print_rows(const char *level, const struct command *list);

/* verbs: finds a subcommand by its name and runs it. */
#include "cli/verbs.h"

#include "base/args.h"
#include "base/mem.h"

const struct command *verbs_find(const struct command *list, const char *name)
{
        for (; list->name; list++)
                if (strcmp(list->name, name) == 0)
                        return list;
        return NULL;
}

void verbs_print(FILE *to, const struct command *list)
{
        for (; list->name; list++)
                fprintf(to, "  %-14s%s\n", list->name, list->about);
}

int verbs_print_rows(const char *level, const struct command *list)
{
        int code = 0;

        for (; list->name && code == 0; list++) {
                _free_ char *name = mem_strdup(list->name);
                char request[] = "--help-table", *argv[] = { name, request, NULL };
                printf("%s\t%s\t%s\n", level, list->name, list->about);
                code = list->run(2, argv);
        }
        return fflush(stdout) == 0 ? code : 1;
}

static void print_help(FILE *to, const struct verbs *verbs)
{
        if (verbs->about)
                fprintf(to, "%s\n\n", verbs->about);
        fprintf(to, "Usage: %s COMMAND [OPTIONS]\n\nCommands:\n", verbs->name);
        verbs_print(to, verbs->list);
        fprintf(to,
                "\nOptions:\n  -h, --help  Print the list of commands\n\n`%s COMMAND --help` explains one.\n",
                verbs->name);
        fflush(to);
}

int verbs_run(const struct verbs *verbs, int argc, char **argv)
{
        const char *name = argc > 1 ? argv[1] : "";

        if (args_wants_table(argc, argv))
                return verbs_print_rows("verb", verbs->list);
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
                print_help(stdout, verbs);
                return 0;
        }
        const struct command *verb = verbs_find(verbs->list, name);
        if (verb)
                return verb->run(argc - 1, argv + 1);

        if (argc <= 1)
                fprintf(stderr, "error: '%s' needs a command\n\n", verbs->name);
        else if (name[0] == '-')
                fprintf(stderr, "error: unexpected argument '%s': the command comes first\n\n", name);
        else
                fprintf(stderr, "error: unknown command '%s' of '%s'\n\n", name, verbs->name);
        print_help(stderr, verbs);
        return 2;
}

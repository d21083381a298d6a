/* verbs_test: how a verb is found, and what is printed when there is none. */
#include "cli/verbs.h"

#include "base/args.h"
#include "base/fd.h"
#include "unit.h"

#include <sys/mman.h>
#include <unistd.h>

static int ran;            /* argc of the verb that ran */
static const char *ran_as; /* argv[0] of the verb that ran */

static int parse(const char *usage, int argc, char **argv)
{
        bool is_long = false;
        const struct arg table[] = {
                { "long", ARG_FLAG, NULL, "Say more", .letter = 'l', .target = &is_long },
                { .name = NULL },
        };
        const struct args spec = { .usage = usage, .table = table, .operands = OFFER_FILE };
        int rest;
        switch (args_parse(&spec, argc, argv, &rest)) {
        case ARGS_HELP:
                return 0;
        case ARGS_BAD:
                return 2;
        case ARGS_OK:
                break;
        }
        ran = argc;
        ran_as = argv[0];
        return is_long ? 7 : 5;
}

static int run_ls(int argc, char **argv)
{
        return parse("prog fs ls [PATH…]", argc, argv);
}

static int run_cat(int argc, char **argv)
{
        return parse("prog fs cat PATH…", argc, argv);
}

static const struct command list[] = {
        { "ls", "list a directory", run_ls },
        { "cat", "print files", run_cat },
        { .name = NULL },
};

static const struct verbs fs = { .name = "prog fs", .about = "Files.", .list = list };

#define LIST                                         \
        "Usage: prog fs COMMAND [OPTIONS]\n"         \
        "\n"                                         \
        "Commands:\n"                                \
        "  ls            list a directory\n"         \
        "  cat           print files\n"              \
        "\n"                                         \
        "Options:\n"                                 \
        "  -h, --help  Print the list of commands\n" \
        "\n"                                         \
        "`prog fs COMMAND --help` explains one.\n"

static char printed[2048];

/* Runs `line`, whose words are separated by blanks, and collects what is written to `fd` in `printed`. Returns the exit code. */
static int run(int fd, const char *line)
{
        static char words[128];
        char *argv[8] = { 0 };
        int argc = 0;
        snprintf(words, sizeof(words), "%s", line);
        for (char *at = words, *word; (word = strsep(&at, " ")) && argc < 7;)
                argv[argc++] = word;
        ran = 0;
        fflush(stdout);
        int file = memfd_create("verbs_test", MFD_CLOEXEC), saved = dup(fd);
        ok(file >= 0 && saved >= 0);
        dup2(file, fd);
        int code = verbs_run(&fs, argc, argv);
        fflush(stdout);
        dup2(saved, fd);
        fd_close(saved);
        ssize_t n = pread(file, printed, sizeof(printed) - 1, 0);
        fd_close(file);
        ok(n >= 0);
        printed[n] = '\0';
        return code;
}

TEST(a_verb_gets_its_own_arguments)
{
        eq_int(run(STDERR_FILENO, "fs ls"), 5);
        eq_int(ran, 1);
        eq_str(ran_as, "ls");
        eq_int(run(STDERR_FILENO, "fs cat -l a b"), 7);
        eq_int(ran, 4);
        eq_str(ran_as, "cat");
        eq_str(printed, "");
}

TEST(verbs_are_listed_in_the_help)
{
        static const char *const lines[] = { "fs --help", "fs -h", "fs help" };
        for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
                eq_int(run(STDOUT_FILENO, lines[i]), 0);
                eq_str(printed, "Files.\n\n" LIST);
        }
        eq_int(run(STDOUT_FILENO, "fs ls --help"), 0);
        ok(strstr(printed, "Usage: prog fs ls [PATH…]\n") != NULL);
        eq_int(ran, 0);
}

TEST(a_missing_or_unknown_verb_is_told_in_words)
{
        eq_int(run(STDERR_FILENO, "fs"), 2);
        eq_str(printed, "error: 'prog fs' needs a command\n\nFiles.\n\n" LIST);
        eq_int(run(STDERR_FILENO, "fs lss x"), 2);
        eq_str(printed, "error: unknown command 'lss' of 'prog fs'\n\nFiles.\n\n" LIST);
        eq_int(run(STDERR_FILENO, "fs --long ls"), 2);
        eq_str(printed, "error: unexpected argument '--long': the command comes first\n\nFiles.\n\n" LIST);
        eq_int(ran, 0);
}

TEST(rows_of_all_verbs_are_printed_and_none_is_run)
{
        eq_int(run(STDOUT_FILENO, "fs --help-table"), 0);
        eq_str(printed, "verb\tls\tlist a directory\n"
                        "option\t-l\t--long\t-\tnothing\tonce\tSay more\n"
                        "option\t-h\t--help\t-\tnothing\tonce\tPrint this help\n"
                        "operands\tfile\tfile\tfirst\n"
                        "verb\tcat\tprint files\n"
                        "option\t-l\t--long\t-\tnothing\tonce\tSay more\n"
                        "option\t-h\t--help\t-\tnothing\tonce\tPrint this help\n"
                        "operands\tfile\tfile\tfirst\n");
        eq_int(ran, 0);
}

/* args_test: how options are parsed, and what is printed about wrong ones. */
#include "base/args.h"

#include "base/fd.h"
#include "unit.h"

#include <sys/mman.h>
#include <unistd.h>

static bool quiet, quiet_given;
static const char *listen_url;
static uint64_t requests;

static const struct arg table[] = {
        { .name = "quiet", .kind = ARG_FLAG, .help = "Say less", .target = &quiet, .given = &quiet_given },
        { .name = "listen",
          .kind = ARG_STRING,
          .value = "URL",
          .help = "Where to listen",
          .target = &listen_url },
        { .name = "concurrent-requests",
          .kind = ARG_U64,
          .value = "N",
          .help = "How many at once",
          .target = &requests,
          .min = 1,
          .max = 100 },
        { 0 },
};

static const struct args spec = { .usage = "prog serve [OPTIONS]", .about = "Serves.", .table = table };

/* What the parser has printed, and the index of the first operand. */
static char printed[2048];
static int rest;

/* Parses while `fd` (stdout or stderr) goes into `printed`. The list ends with NULL. */
static enum args_result parse_as(const struct args *as, int fd, char **argv)
{
        int argc = 0;
        while (argv[argc])
                argc++;

        rest = -1;
        fflush(stdout);
        int file = memfd_create("args_test", MFD_CLOEXEC), saved = dup(fd);
        ok(file >= 0 && saved >= 0);
        dup2(file, fd);
        enum args_result result = args_parse(as, argc, argv, &rest);
        fflush(stdout);
        dup2(saved, fd);
        fd_close(saved);

        ssize_t n = pread(file, printed, sizeof(printed) - 1, 0);
        fd_close(file);
        ok(n >= 0);
        printed[n] = '\0';
        return result;
}

static enum args_result parse(int fd, char **argv)
{
        quiet = quiet_given = false;
        listen_url = NULL;
        requests = 7;
        return parse_as(&spec, fd, argv);
}

#define ARGV(...) ((char *[]){ (char[]){ "prog" }, __VA_ARGS__ __VA_OPT__(, ) NULL })
#define A(text) ((char[]){ text })

/* Checks the first line of `printed`, and that the usage follows. */
static void complained(const struct args *as, const char *first_line)
{
        char *end = strchr(printed, '\n');
        ok(end != NULL);
        ok(strstr(end, as->usage) != NULL);
        *end = '\0';
        eq_str(printed, first_line);
}

static void refused(char **argv, const char *first_line)
{
        eq_int(parse(STDERR_FILENO, argv), ARGS_BAD);
        complained(&spec, first_line);
}

TEST(no_arguments_leave_the_defaults)
{
        eq_int(parse(STDERR_FILENO, ARGV()), ARGS_OK);
        eq_str(printed, "");
        eq_int(rest, 1);
        eq_u64(requests, 7);
        ok(!quiet_given);
}

TEST(empty_argument_vector_is_no_crash)
{
        char *none[] = { NULL };

        eq_int(parse(STDERR_FILENO, none), ARGS_OK);
        eq_int(rest, 0);
}

TEST(values_follow_or_are_attached)
{
        eq_int(parse(STDERR_FILENO,
                     ARGV(A("--listen"), A("stdio"), A("--concurrent-requests=5"), A("--quiet"))),
               ARGS_OK);
        eq_str(listen_url, "stdio");
        eq_u64(requests, 5);
        ok(quiet && quiet_given);
        eq_int(rest, 5);

        eq_int(parse(STDERR_FILENO, ARGV(A("--listen=a=b"))), ARGS_OK);
        eq_str(listen_url, "a=b");
        eq_int(parse(STDERR_FILENO, ARGV(A("--listen="))), ARGS_OK);
        eq_str(listen_url, "");
        eq_int(parse(STDERR_FILENO, ARGV(A("--listen=--x"))), ARGS_OK);
        eq_str(listen_url, "--x");
        eq_int(parse(STDERR_FILENO, ARGV(A("--listen"), A("-"))), ARGS_OK);
        eq_str(listen_url, "-");
}

TEST(options_end_at_the_first_operand)
{
        eq_int(parse(STDERR_FILENO, ARGV(A("--quiet"), A("run"), A("--listen"))), ARGS_OK);
        eq_int(rest, 2);
        eq_int(parse(STDERR_FILENO, ARGV(A("-"), A("--listen"))), ARGS_OK);
        eq_int(rest, 1);
        eq_int(parse(STDERR_FILENO, ARGV(A(""))), ARGS_OK);
        eq_int(rest, 1);
}

TEST(two_dashes_end_the_options)
{
        eq_int(parse(STDERR_FILENO, ARGV(A("--quiet"), A("--"), A("--listen"))), ARGS_OK);
        eq_int(rest, 3);
        eq_int(parse(STDERR_FILENO, ARGV(A("--"))), ARGS_OK);
        eq_int(rest, 2);
}

TEST(unknown_options_are_refused)
{
        refused(ARGV(A("--x")), "error: unexpected argument '--x'");
        refused(ARGV(A("--x=1")), "error: unexpected argument '--x'");
        refused(ARGV(A("--liste")), "error: unexpected argument '--liste'");
        refused(ARGV(A("--=")), "error: unexpected argument '--'");
        refused(ARGV(A("-x")), "error: unexpected argument '-x'");
        refused(ARGV(A("-quiet")), "error: unexpected argument '-quiet'");
}

TEST(missing_and_superfluous_values_are_refused)
{
        refused(ARGV(A("--listen")), "error: a value is required for '--listen <URL>'");
        refused(ARGV(A("--listen"), A("--quiet")), "error: a value is required for '--listen <URL>'");
        refused(ARGV(A("--listen"), A("--")), "error: a value is required for '--listen <URL>'");
        refused(ARGV(A("--quiet=yes")), "error: unexpected value 'yes' for '--quiet'");
        refused(ARGV(A("--quiet=")), "error: unexpected value '' for '--quiet'");
}

TEST(repeated_options_are_refused)
{
        refused(ARGV(A("--quiet"), A("--quiet")),
                "error: the argument '--quiet' cannot be used more than once");
        refused(ARGV(A("--listen"), A("a"), A("--listen=a")),
                "error: the argument '--listen' cannot be used more than once");
}

TEST(numbers_outside_their_bounds_are_refused)
{
#define FOR_N "' for '--concurrent-requests': must be "
        refused(ARGV(A("--concurrent-requests"), A("0")), "error: invalid value '0" FOR_N "at least 1");
        refused(ARGV(A("--concurrent-requests=101")), "error: invalid value '101" FOR_N "at most 100");
        refused(ARGV(A("--concurrent-requests=99999999999999999999")),
                "error: invalid value '99999999999999999999" FOR_N "at most 100");
        refused(ARGV(A("--concurrent-requests"), A("-1")), "error: invalid value '-1" FOR_N "a whole number");
        refused(ARGV(A("--concurrent-requests=")), "error: invalid value '" FOR_N "a whole number");
        refused(ARGV(A("--concurrent-requests=1k")), "error: invalid value '1k" FOR_N "a whole number");
        eq_u64(requests, 7);
}

TEST(help_is_printed_to_stdout)
{
        static const char help[] = "Serves.\n"
                                   "\n"
                                   "Usage: prog serve [OPTIONS]\n"
                                   "\n"
                                   "Options:\n"
                                   "  --quiet                    Say less\n"
                                   "  --listen <URL>             Where to listen\n"
                                   "  --concurrent-requests <N>  How many at once\n"
                                   "  -h, --help                 Print this help\n";

        eq_int(parse(STDOUT_FILENO, ARGV(A("--help"))), ARGS_HELP);
        eq_str(printed, help);
        eq_int(parse(STDOUT_FILENO, ARGV(A("--quiet"), A("-h"), A("--x"))), ARGS_HELP);
        eq_str(printed, help);
}

/* ---- letters, lists, options behind operands ---- */

static bool tty, interactive, all;
static const char *directory;
static struct arg_list variables;

static const struct arg run_table[] = {
        { "tty", ARG_FLAG, NULL, "On a terminal", .letter = 't', .target = &tty },
        { "interactive", ARG_FLAG, NULL, "Pass input on", .letter = 'i', .target = &interactive },
        { "all", ARG_FLAG, NULL, "Everything", .target = &all },
        { "cwd", ARG_STRING, "DIR", "Where to start", .letter = 'C', .target = &directory,
          .offers = OFFER_DIRECTORY },
        { "env", ARG_LIST, "KEY=VALUE", "A variable", .letter = 'e', .target = &variables },
        { .name = NULL },
};

static const struct args run_spec = {
        .usage = "prog run [OPTIONS] COMMAND",
        .table = run_table,
        .operands = OFFER_COMMAND,
};

static const struct args copy_spec = {
        .usage = "prog cp [OPTIONS] FROM TO",
        .table = run_table,
        .is_mixed = true,
        .operands = OFFER_DIRECTORY,
        .behind = OFFER_FILE,
};

static enum args_result parse_run(const struct args *as, int fd, char **argv)
{
        tty = interactive = all = false;
        directory = NULL;
        arg_list_release(&variables);
        return parse_as(as, fd, argv);
}

static void run_refused(char **argv, const char *first_line)
{
        eq_int(parse_run(&run_spec, STDERR_FILENO, argv), ARGS_BAD);
        complained(&run_spec, first_line);
}

TEST(letters_are_options_alone_and_together)
{
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("-t"), A("-i"))), ARGS_OK);
        ok(tty && interactive && rest == 3);
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("-it"), A("--all"))), ARGS_OK);
        ok(tty && interactive && all && rest == 3);
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("--tty"))), ARGS_OK);
        ok(tty && !interactive);
}

TEST(the_value_of_a_letter_follows_or_is_attached)
{
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("-C"), A("/a"), A("ls"))), ARGS_OK);
        eq_str(directory, "/a");
        eq_int(rest, 3);
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("-C/a"))), ARGS_OK);
        eq_str(directory, "/a");
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("-itC/ti"))), ARGS_OK);
        ok(tty && interactive);
        eq_str(directory, "/ti");
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("-tC"), A("-"))), ARGS_OK);
        eq_str(directory, "-");
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("-C"), A(""))), ARGS_OK);
        eq_str(directory, "");
}

TEST(wrong_letters_are_refused)
{
        run_refused(ARGV(A("-x")), "error: unexpected argument '-x'");
        run_refused(ARGV(A("-xt")), "error: unexpected argument '-xt'");
        run_refused(ARGV(A("-help")), "error: unexpected argument '-help'");
        run_refused(ARGV(A("-tx")), "error: unexpected argument '-x' in '-tx'");
        run_refused(ARGV(A("-t=yes")), "error: unexpected argument '-=yes' in '-t=yes'");
        run_refused(ARGV(A("-tC")), "error: a value is required for '--cwd <DIR>'");
        run_refused(ARGV(A("-C"), A("--tty")), "error: a value is required for '--cwd <DIR>'");
        run_refused(ARGV(A("-tt")), "error: the argument '--tty' cannot be used more than once");
        run_refused(ARGV(A("-t"), A("--tty")), "error: the argument '--tty' cannot be used more than once");
}

TEST(a_list_keeps_every_value_in_order)
{
        eq_int(parse_run(&run_spec, STDERR_FILENO, ARGV(A("ls"))), ARGS_OK);
        eq_u64(variables.count, 0);
        eq_int(parse_run(&run_spec, STDERR_FILENO,
                         ARGV(A("-e"), A("A=1"), A("--env=B=2"), A("-eC"), A("-te"), A("D=4"), A("--env"),
                              A("E="))),
               ARGS_OK);
        eq_u64(variables.count, 5);
        static const char *const wanted[] = { "A=1", "B=2", "C", "D=4", "E=" };
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
                eq_str(variables.items[i], wanted[i]);
        run_refused(ARGV(A("-e"), A("A=1"), A("-e")), "error: a value is required for '--env <KEY=VALUE>'");
        arg_list_release(&variables);
        ok(!variables.items && variables.count == 0);
}

TEST(options_of_the_command_are_left_alone)
{
        char **argv = ARGV(A("-t"), A("ls"), A("-l"), A("--all"), A("-x"));
        eq_int(parse_run(&run_spec, STDERR_FILENO, argv), ARGS_OK);
        ok(tty && !all);
        eq_int(rest, 2);
        eq_str(argv[3], "-l");
}

/* Parses with options behind operands; the operands, joined by blanks, must be these. */
static void has_operands(char **argv, const char *wanted)
{
        char joined[64] = "";
        eq_int(parse_run(&copy_spec, STDERR_FILENO, argv), ARGS_OK);
        for (int i = rest; argv[i]; i++)
                snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "%s%s",
                         i > rest ? " " : "", argv[i]);
        eq_str(joined, wanted);
}

TEST(options_may_follow_operands_where_the_table_says_so)
{
        has_operands(ARGV(), "");
        has_operands(ARGV(A("a"), A("b")), "a b");
        has_operands(ARGV(A("a"), A("-t"), A("b"), A("-C"), A("c"), A("d")), "a b d");
        ok(tty);
        eq_str(directory, "c");
        has_operands(ARGV(A("-t"), A("a"), A("-"), A("b"), A("--all"), A("-i")), "a - b");
        ok(tty && all && interactive);
        has_operands(ARGV(A("a"), A("b"), A("-t"), A("--"), A("-i"), A("c"), A("--")), "a b -i c --");
        ok(tty && !interactive);
        eq_int(parse_run(&copy_spec, STDERR_FILENO, ARGV(A("a"), A("-x"))), ARGS_BAD);
        eq_int(parse_run(&copy_spec, STDOUT_FILENO, ARGV(A("a"), A("-h"))), ARGS_HELP);
}

TEST(help_shows_letters)
{
        eq_int(parse_run(&run_spec, STDOUT_FILENO, ARGV(A("-th"))), ARGS_HELP);
        eq_str(printed, "Usage: prog run [OPTIONS] COMMAND\n"
                        "\n"
                        "Options:\n"
                        "  -t, --tty              On a terminal\n"
                        "  -i, --interactive      Pass input on\n"
                        "      --all              Everything\n"
                        "  -C, --cwd <DIR>        Where to start\n"
                        "  -e, --env <KEY=VALUE>  A variable\n"
                        "  -h, --help             Print this help\n");
}

TEST(the_table_is_printed_as_rows)
{
        eq_int(parse_run(&run_spec, STDOUT_FILENO, ARGV(A("--help-table"))), ARGS_HELP);
        eq_str(printed, "option\t-t\t--tty\t-\tnothing\tonce\tOn a terminal\n"
                        "option\t-i\t--interactive\t-\tnothing\tonce\tPass input on\n"
                        "option\t-\t--all\t-\tnothing\tonce\tEverything\n"
                        "option\t-C\t--cwd\tDIR\tdirectory\tonce\tWhere to start\n"
                        "option\t-e\t--env\tKEY=VALUE\tnothing\tmany\tA variable\n"
                        "option\t-h\t--help\t-\tnothing\tonce\tPrint this help\n"
                        "operands\tcommand\tcommand\tfirst\n");
        eq_int(parse_run(&copy_spec, STDOUT_FILENO, ARGV(A("--help-table"))), ARGS_HELP);
        ok(strstr(printed, "\noperands\tdirectory\tfile\tmixed\n") != NULL);
        run_refused(ARGV(A("--help-table"), A("x")), "error: unexpected argument '--help-table'");
}

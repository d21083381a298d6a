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
static enum args_result parse(int fd, char **argv)
{
        int argc = 0;
        while (argv[argc])
                argc++;

        quiet = quiet_given = false;
        listen_url = NULL;
        requests = 7;
        rest = -1;

        fflush(stdout);
        int file = memfd_create("args_test", MFD_CLOEXEC), saved = dup(fd);
        ok(file >= 0 && saved >= 0);
        dup2(file, fd);
        enum args_result result = args_parse(&spec, argc, argv, &rest);
        fflush(stdout);
        dup2(saved, fd);
        fd_close(saved);

        ssize_t n = pread(file, printed, sizeof(printed) - 1, 0);
        fd_close(file);
        ok(n >= 0);
        printed[n] = '\0';
        return result;
}

#define ARGV(...) ((char *[]){ (char[]){ "prog" }, __VA_ARGS__ __VA_OPT__(, ) NULL })
#define A(text) ((char[]){ text })

static void refused(char **argv, const char *first_line)
{
        eq_int(parse(STDERR_FILENO, argv), ARGS_BAD);
        char *end = strchr(printed, '\n');
        ok(end != NULL);
        ok(strstr(end, "Usage: prog serve [OPTIONS]\n") != NULL);
        *end = '\0';
        eq_str(printed, first_line);
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

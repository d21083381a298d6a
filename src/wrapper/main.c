/* farhand-execve-wrapper: the program that a shell which was built for it executes in place of each program: it asks the server that has
 * started the shell, and then executes the program, waits until the server has run it, or fails (intercept/escalate_socket.h).
 *
 *     farhand-execve-wrapper FILE ARGV0 [ARG…]
 *
 * It fails closed: without an answer no program runs. */
#include "wrapper/exchange.h"
#include "wrapper/preload.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "intercept/preloaded.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define STDERR_WAIT_MS 500

enum { EXIT_DENIED = 1, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

extern char **environ;

/* Prints why nothing ran, with one write, so that the lines of several wrappers do not mix; nobody waits for a reader that does not read.
 * Returns the exit status. */
static int fail(int status, const char *what, const char *why)
{
        _buf_ struct buf line = BUF_INIT(2 * LIMIT_INTERCEPT_REASON_BYTES);
        struct pollfd errors = { STDERR_FILENO, POLLOUT, 0 };

        (void)signal(SIGPIPE, SIG_IGN);
        if (poll(&errors, 1, STDERR_WAIT_MS) == 1 && errors.revents == POLLOUT &&
            buf_printf(&line, "%s%s%s\n", what, *why ? ": " : "", why) == 0)
                (void)!fd_write_all(STDERR_FILENO, buf_slice(&line));
        return status;
}

/* Executes the program. A file that the kernel does not know as a program is a script for /bin/sh, as in Bash. Returns only after a
 * failure. */
static int run(char **argv)
{
        const char *file = argv[1];

        int r = preload_restore();
        if (r < 0)
                return fail(EXIT_NOT_EXECUTABLE, file, strerror(-r));
        execve(file, argv + 2, environ);
        if (errno == ENOEXEC) {
                size_t count = 0;
                while (argv[count])
                        count++;
                char **words = calloc(count + 1, sizeof(*words));
                if (words) {
                        words[0] = (char *)"sh";
                        words[1] = argv[1];
                        for (size_t i = 3; i < count; i++)
                                words[i - 1] = argv[i];
                        execve("/bin/sh", words, environ);
                }
        }
        return fail(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE, file, strerror(errno));
}

/* Ends this process in the way in which the program has ended, but without a core file: the program has left its own. */
static int end_as(const struct escalate_result *result)
{
        if (result->signal > 0) {
                struct rlimit none = { 0, 0 };
                sigset_t one;
                (void)setrlimit(RLIMIT_CORE, &none);
                (void)signal(result->signal, SIG_DFL);
                (void)sigemptyset(&one);
                (void)sigaddset(&one, result->signal);
                (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
                (void)raise(result->signal);
                /* The default of this signal is to do nothing, so this process goes on. */
                return 128 + result->signal;
        }
        return result->exit_code & 0xff;
}

/* `stream`: on which the question was asked already, or -1. `has_given`: the descriptors were handed over already, too. */
static int ask(char **argv, int stream, bool has_given)
{
        struct exchange x = EXCHANGE_INIT;
        struct escalate_answer answer;
        struct escalate_result result;

        int r = stream >= 0 ? exchange_take_over(&x, stream, has_given) : exchange_begin(&x);
        if (r < 0)
                return fail(EXIT_DENIED, "farhand-execve-wrapper: " ESCALATE_VARIABLE,
                            r == -ENOENT ? "not set" : strerror(-r));
        if (stream < 0)
                r = exchange_ask(&x, argv[1], argv + 2, environ);
        if (r == 0)
                r = exchange_answer(&x, &answer);
        if (r < 0)
                return fail(EXIT_DENIED, "farhand-execve-wrapper: the server does not answer", strerror(-r));
        switch (answer.action) {
        case ESCALATE_RUN:
                exchange_end(&x);
                return run(argv);
        case ESCALATE_ESCALATE:
                r = exchange_escalate(&x, answer.is_ours, &result);
                if (r == -E2BIG)
                        return fail(EXIT_NOT_EXECUTABLE, argv[1],
                                    "more open descriptors than can be handed over");
                if (r < 0)
                        return fail(EXIT_DENIED, "farhand-execve-wrapper: the server does not answer",
                                    strerror(-r));
                return end_as(&result);
        case ESCALATE_DENY:
                break;
        }
        _free_ char *reason = slice_dup(answer.reason.p ? answer.reason : S(""));
        return fail(EXIT_DENIED, "Execution denied", reason);
}

int main(int argc, char **argv)
{
        bool is_first, has_given;
        int stream;

        if (argc < 3)
                return fail(2, "farhand-execve-wrapper FILE ARGV0 [ARG…]", "");
        int r = preload_begin(&is_first, &stream, &has_given);
        if (r < 0)
                return fail(EXIT_NOT_EXECUTABLE, "farhand-execve-wrapper: " PRELOADED_VARIABLE, strerror(-r));
        return is_first ? run(argv) : ask(argv, stream, has_given);
}

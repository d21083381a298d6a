/* farhand-execve-wrapper: what a shell that was built for it executes in place of each program: it asks the server that started the
 * shell, and then runs the program, has the server run it, or fails (intercept/escalate_socket.h).
 *
 *     farhand-execve-wrapper FILE ARGV0 [ARG…]
 *
 * It fails closed: what it cannot ask about it does not run. */
#include "wrapper/session.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_DENIED = 1, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

extern char **environ;

/* One write, so that the words of several programs do not mix. */
static int fail(int status, const char *what, const char *why)
{
        _buf_ struct buf line = BUF_INIT(2 * LIMIT_INTERCEPT_REASON_BYTES);

        if (buf_printf(&line, "%s%s%s\n", what, *why ? ": " : "", why) == 0)
                (void)!fd_write_all(STDERR_FILENO, buf_slice(&line));
        return status;
}

/* A file that is no program of the kernel's is one for the shell, as Bash has it. */
static int run(char **argv)
{
        const char *file = argv[1];

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

/* Ends as the program has ended. Its core file, if it has made one, is not followed by one of this process. */
static int end_as(const struct escalate_result *result)
{
        if (result->signal > 0) {
                struct rlimit none = { 0, 0 };
                sigset_t it;
                (void)setrlimit(RLIMIT_CORE, &none);
                (void)signal(result->signal, SIG_DFL);
                (void)sigemptyset(&it);
                (void)sigaddset(&it, result->signal);
                (void)sigprocmask(SIG_UNBLOCK, &it, NULL);
                (void)raise(result->signal);
                return 128 + result->signal; /* a signal whose default is to do nothing */
        }
        return result->exit_code & 0xff;
}

int main(int argc, char **argv)
{
        struct session s = SESSION_INIT;
        struct escalate_answer answer;
        struct escalate_result result;

        if (argc < 3)
                return fail(2, "farhand-execve-wrapper FILE ARGV0 [ARG…]", "");
        int r = session_begin(&s);
        if (r < 0)
                return fail(EXIT_DENIED, "farhand-execve-wrapper: " ESCALATE_VARIABLE,
                            r == -ENOENT ? "not set" : strerror(-r));
        r = session_ask(&s, argv[1], argv + 2, environ, &answer);
        if (r < 0)
                return fail(EXIT_DENIED, "farhand-execve-wrapper: the server does not answer", strerror(-r));
        switch (answer.action) {
        case ESCALATE_RUN:
                session_end(&s);
                return run(argv);
        case ESCALATE_ESCALATE:
                r = session_escalate(&s, answer.is_ours, &result);
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

/* confine_test: what a program that was taken over could still do to others of its user. */
#include "egress/confine.h"

#include "base/fd.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Has the kernel kill `victim` when a socket becomes readable: no kill(2) is needed for that. */
static void kill_by_socket(pid_t victim)
{
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || confine_calls() < 0)
                _exit(2);
        bool is_set = fcntl(pair[0], F_SETOWN, victim) == 0 && fcntl(pair[0], F_SETSIG, SIGKILL) == 0 &&
                      fcntl(pair[0], F_SETFL, O_ASYNC) == 0 && write(pair[1], "x", 1) == 1;
        _exit(is_set);
}

/* The log is the server's: what was written stays, and is written without waiting. */
static void spoil_log(void)
{
        int null = open("/dev/null", O_WRONLY);
        if (null < 0 || dup2(null, STDERR_FILENO) < 0 || confine_calls() < 0)
                _exit(2);
        bool is_spoilt = lseek(STDERR_FILENO, 0, SEEK_SET) == 0 ||
                         fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK) == 0 ||
                         pwrite(STDERR_FILENO, "x", 1, 0) >= 0;
        _exit(is_spoilt);
}

static int end_of(pid_t pid)
{
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(no_other_process_gets_signals)
{
        if (IS_ASAN)
                skip(); /* no call is forbidden then */
        pid_t victim = fork();
        if (victim == 0)
                for (;;)
                        (void)pause();
        pid_t taken = fork();
        if (taken == 0)
                kill_by_socket(victim);
        eq_int(end_of(taken), 0);
        eq_int(kill(victim, SIGTERM), 0);
        eq_int(end_of(victim), -SIGTERM);
}

TEST(the_log_is_only_written_on)
{
        if (IS_ASAN)
                skip();
        pid_t taken = fork();
        if (taken == 0)
                spoil_log();
        eq_int(end_of(taken), 0);
}

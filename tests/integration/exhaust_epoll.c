/* A hostile program: takes every epoll watch that its user may have, and also each watch that is given back, at once.
 *
 * The kernel counts watches per user (fs.epoll.max_user_watches), whatever user namespace the process is in. A process
 * that may open N descriptors can make N * N / 4 watches; as many processes are made as that takes, within a bound.
 * Prints "full" when the kernel has refused a watch, because the user has as many as it may have.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define AT_ONCE 2 /* processes that take watches at the same time */
#define PROCESSES_MAX 256
#define FDS_MAX 8192
#define FDS_OTHER 16 /* descriptors of a process that are no watches */

static void say(int to, char what)
{
        if (write(to, &what, 1) != 1)
                _exit(2);
}

/* Opens a file to watch. One whose poll() waits for nothing costs the kernel two thirds of an eventfd, in memory and time. */
static int open_target(void)
{
        int fd = open("/proc/sys/kernel/ostype", O_RDONLY | O_CLOEXEC);
        return fd >= 0 ? fd : eventfd(0, EFD_CLOEXEC);
}

/* Makes a watch. Tries again while the kernel refuses. */
static void take_one(int epoll, int target, int report, int *has_told)
{
        struct epoll_event event = { .events = EPOLLIN };
        while (epoll_ctl(epoll, EPOLL_CTL_ADD, target, &event) < 0) {
                if (errno != ENOSPC && errno != ENOMEM)
                        _exit(3);
                if (!*has_told)
                        say(report, 'f');
                *has_told = 1;
                (void)poll(NULL, 0, 1);
        }
}

static void take_all(int report)
{
        struct rlimit limit;
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                _exit(4);
        limit.rlim_cur = limit.rlim_max < FDS_MAX ? limit.rlim_max : FDS_MAX;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        size_t half = (limit.rlim_cur - FDS_OTHER) / 2;
        int *targets = calloc(half, sizeof(*targets)), has_told = 0;
        for (size_t i = 0; i < half; i++)
                if ((targets[i] = open_target()) < 0)
                        _exit(5);
        for (size_t e = 0; e < half; e++) {
                int epoll = epoll_create1(EPOLL_CLOEXEC);
                if (epoll < 0)
                        _exit(6);
                for (size_t i = 0; i < half; i++)
                        take_one(epoll, targets[i], report, &has_told);
        }
        say(report, 'm'); /* this process can have no more watches: the next process goes on */
        for (;;)
                pause();
}

int main(void)
{
        int reports[2], made = 0, has_told = 0;
        if (pipe2(reports, O_CLOEXEC) < 0)
                return 1;
        for (;;) {
                char what = 'm';
                if (made >= AT_ONCE && read(reports[0], &what, 1) != 1)
                        return 1;
                if (what == 'f' && !has_told) {
                        has_told = 1;
                        printf("full\n");
                        fflush(stdout);
                }
                if (what != 'm')
                        continue;
                if (made++ == PROCESSES_MAX)
                        return 1;
                pid_t pid = fork();
                if (pid == 0) {
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                        take_all(reports[1]);
                }
                if (pid < 0)
                        return 1;
        }
}

/* timed CMD…: runs a command with nothing to read and nowhere to write, and prints how many microseconds it took and the highest
 * resident size of it and of those of its children that it has waited for, in KiB.
 *
 * cli.py does not start commands itself: the kernel counts the memory of the caller at the time of execve as the command's.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static long long now_us(void)
{
        struct timespec t;
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
        posix_spawn_file_actions_t actions;
        pid_t pid;
        int status;
        struct rusage usage;
        if (argc < 2)
                return 2;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        long long began = now_us();
        int r = posix_spawnp(&pid, argv[1], &actions, NULL, argv + 1, environ);
        if (r != 0 || wait4(pid, &status, 0, &usage) < 0) {
                fprintf(stderr, "timed: %s: %s\n", argv[1], strerror(r ? r : errno));
                return 1;
        }
        printf("%lld %ld\n", now_us() - began, usage.ru_maxrss);
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

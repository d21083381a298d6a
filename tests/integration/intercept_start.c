/* Executes a program in one of the ways in which programs do that, for the tests of interception.
 *
 *     start HOW PROGRAM [ARG…]     PROGRAM is a path
 *
 * What comes back is the exit status of the program, or 100 with the error on stderr when it could not be executed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int failed(const char *what)
{
        dprintf(2, "%s: %s\n", what, strerror(errno));
        return 100;
}

static int result(pid_t pid)
{
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return failed("waitpid");
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int by_execve(char **argv)
{
        syscall(SYS_execve, argv[0], argv, environ);
        return failed("execve");
}

/* The memory and the registers of the parent must be as before: it executes the program once more, by vfork. */
static int by_vfork(char **argv)
{
        char path[4096];
        int first;

        snprintf(path, sizeof(path), "%s", argv[0]);
        for (int round = 0; round < 2; round++) {
                pid_t pid = vfork();

                if (pid < 0)
                        return failed("vfork");
                if (pid == 0) {
                        execve(path, argv, environ);
                        _exit(100);
                }
                if (round == 0)
                        first = result(pid);
                else if (result(pid) != first || strcmp(path, argv[0]) != 0)
                        return 101;
        }
        return first;
}

static int by_posix_spawn(char **argv)
{
        pid_t pid;

        errno = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
        return errno ? failed("posix_spawn") : result(pid);
}

static int by_descriptor(char **argv)
{
        int fd = open(argv[0], O_RDONLY | O_CLOEXEC);

        fexecve(fd, argv, environ);
        return failed("fexecve");
}

/* A descriptor that can do nothing but name the file. */
static int by_path_descriptor(char **argv)
{
        int fd = open(argv[0], O_PATH | O_CLOEXEC);

        syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
        return failed("execveat");
}

static int by_directory(char **argv)
{
        char folder[4096];
        char *slash;

        snprintf(folder, sizeof(folder), "%s", argv[0]);
        slash = strrchr(folder, '/');
        *slash = '\0';
        int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        syscall(SYS_execveat, fd, slash + 1, argv, environ, 0);
        return failed("execveat");
}

/* The name of a descriptor of the caller in place of the name of the file. */
static int by_proc(char **argv)
{
        char path[64];
        int fd = open(argv[0], O_PATH | O_CLOEXEC);

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        execve(path, argv, environ);
        return failed("execve");
}

static void *execute(void *argv)
{
        by_execve(argv);
        _exit(100);
}

/* A thread that is not the first one executes: the kernel ends the others, and the process keeps its number. */
static int by_thread(char **argv)
{
        pthread_t thread;

        if (pthread_create(&thread, NULL, execute, argv) != 0)
                return failed("pthread_create");
        for (;;)
                pause();
}

static int spawned(void *argv)
{
        execve(*(char **)argv, argv, environ);
        return 100;
}

/* A child that has the memory of its parent, while the parent goes on. */
static int by_shared_memory(char **argv)
{
        static char stack[1 << 16] __attribute__((aligned(16)));
        pid_t pid = clone(spawned, stack + sizeof(stack), CLONE_VM | SIGCHLD, argv);

        return pid < 0 ? failed("clone") : result(pid);
}

/* The memory of such a process belongs to root. */
static int not_dumpable(char **argv)
{
        prctl(PR_SET_DUMPABLE, 0);
        return by_execve(argv);
}

static int without_arguments(char **argv)
{
        char *none[] = { NULL };

        execve(argv[0], none, environ);
        return failed("execve");
}

static int without_vectors(char **argv)
{
        syscall(SYS_execve, argv[0], NULL, NULL);
        return failed("execve");
}

static int with_bad_pointers(char **argv)
{
        syscall(SYS_execve, 8, argv, environ);
        if (errno != EFAULT && errno != EACCES)
                return failed("execve with a bad path");
        syscall(SYS_execve, argv[0], 8, environ);
        if (errno != EFAULT && errno != EACCES)
                return failed("execve with bad arguments");
        return 0;
}

/* Another number of the same call: the 32-bit one on x86-64. */
static int foreign(char **argv)
{
#ifdef __x86_64__
        static char path[64]; /* not on the stack: its address must fit into 32 bits, as the program is linked to be */
        long said;

        snprintf(path, sizeof(path), "%s", argv[0]);
        __asm__ volatile("int $0x80" : "=a"(said) : "a"(11L), "b"(path), "c"(0L), "d"(0L) : "memory");
        errno = (int)-said;
        return failed("execve of 32 bits");
#else
        (void)argv;
        errno = ENOSYS;
        return failed("execve of 32 bits");
#endif
}

static int x32(char **argv)
{
        syscall(0x40000000 | 520, argv[0], argv, environ);
        return failed("execve of x32");
}

static const struct {
        const char *name;
        int (*act)(char **argv);
} ways[] = {
        { "execve", by_execve },
        { "vfork", by_vfork },
        { "posix_spawn", by_posix_spawn },
        { "fexecve", by_descriptor },
        { "path-descriptor", by_path_descriptor },
        { "directory", by_directory },
        { "proc", by_proc },
        { "thread", by_thread },
        { "shared", by_shared_memory },
        { "not-dumpable", not_dumpable },
        { "no-arguments", without_arguments },
        { "no-vectors", without_vectors },
        { "bad-pointers", with_bad_pointers },
        { "foreign", foreign },
        { "x32", x32 },
};

int main(int argc, char **argv)
{
        for (size_t i = 0; argc > 2 && i < sizeof(ways) / sizeof(*ways); i++)
                if (strcmp(argv[1], ways[i].name) == 0)
                        return ways[i].act(argv + 2);
        dprintf(2, "start HOW PROGRAM [ARG…]\n");
        return 102;
}

/* Says whether it runs in what the broker of an intercepted command calls inside or outside, for the tests of interception.
 *
 *     where [WHAT…]     prints "inside" or "outside", and then what was asked for, in one line
 *
 * Outside there are exactly as many filters of system calls as the tests themselves have: FILTERS, given by the compiler. A name
 * of this program that begins with "note" makes it write the same to descriptor 9, with its name and arguments, and print nothing. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static int filters(void)
{
        FILE *f = fopen("/proc/self/status", "re");
        char line[512];
        int count = -1;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, "Seccomp_filters: %d", &count) == 1)
                        break;
        if (f)
                fclose(f);
        return count;
}

static const char *place(void)
{
        int count = filters();

        return count < 0 ? "nowhere" : count == FILTERS ? "outside" : "inside";
}

static void say_descriptors(void)
{
        for (int fd = 3; fd < 64; fd++)
                if (fcntl(fd, F_GETFD) >= 0)
                        printf(" %d", fd);
}

static void say_environment(void)
{
        for (char **e = environ; *e; e++)
                printf(" %s", *e);
}

static void say_limit(void)
{
        struct rlimit limit;

        getrlimit(RLIMIT_NOFILE, &limit);
        printf(" %llu/%llu", (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
}

static void say_umask(void)
{
        mode_t mask = umask(0);

        umask(mask);
        printf(" %03o", (unsigned)mask);
}

static void say_signals(void)
{
        struct sigaction action;

        for (int signo = 1; signo < 32; signo++)
                if (sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
                        printf(" %d", signo);
}

static void say_cwd(void)
{
        char cwd[4096];

        printf(" %s", getcwd(cwd, sizeof(cwd)) ? cwd : "gone");
}

static void say(const char *what, char **argv)
{
        if (strcmp(what, "argv0") == 0)
                printf(" %s", argv[0]);
        else if (strcmp(what, "cwd") == 0)
                say_cwd();
        else if (strcmp(what, "descriptors") == 0)
                say_descriptors();
        else if (strcmp(what, "environment") == 0)
                say_environment();
        else if (strcmp(what, "euid") == 0)
                printf(" %d", (int)geteuid());
        else if (strcmp(what, "files") == 0)
                say_limit();
        else if (strcmp(what, "ignored") == 0)
                say_signals();
        else if (strcmp(what, "leader") == 0)
                printf(" %s", getpgrp() == getpid() ? "leader" : "member");
        else if (strcmp(what, "length") == 0)
                printf(" %zu", argv[2] ? strlen(argv[2]) : 0);
        else if (strcmp(what, "nice") == 0)
                printf(" %d", getpriority(PRIO_PROCESS, 0));
        else if (strcmp(what, "pid") == 0)
                printf(" %d", (int)getpid());
        else if (strcmp(what, "terminal") == 0)
                printf(" %d%d%d", isatty(0), isatty(1), isatty(2));
        else if (strcmp(what, "umask") == 0)
                say_umask();
        else if (strcmp(what, "variable") == 0)
                printf(" %s", getenv("VARIABLE") ? getenv("VARIABLE") : "unset");
}

/* One write, so that the lines of several processes do not mix. */
static int note(const char *name, int argc, char **argv)
{
        char line[512];
        int used = snprintf(line, sizeof(line), "%s %s", place(), name);

        for (int i = 1; i < argc && used < 400; i++)
                used += snprintf(line + used, sizeof(line) - (size_t)used, " %.40s", argv[i]);
        line[used++] = '\n';
        return write(9, line, (size_t)used) == used ? 0 : 3;
}

/* What is executed, whatever argv[0] says. */
static const char *own_name(char *path, size_t size)
{
        ssize_t length = readlink("/proc/self/exe", path, size - 1);

        path[length > 0 ? length : 0] = '\0';
        return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

int main(int argc, char **argv)
{
        char path[4096];
        const char *name = own_name(path, sizeof(path));

        if (strncmp(name, "note", 4) == 0)
                return note(name, argc, argv);
        printf("%s", place());
        for (int i = 1; i < argc; i++)
                say(argv[i], argv);
        printf("\n");
        return fflush(stdout) ? 3 : 0;
}

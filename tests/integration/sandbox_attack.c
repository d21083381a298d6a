/* sandbox_attack: the frame. `sandbox_attack NAME ARGS…` makes one attempt, `--list` names all. */
#define _GNU_SOURCE
#include "sandbox_attack.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct attempt *const tables[] = { call_attempts, proc_attempts, net_attempts, file_attempts,
                                                root_attempts };
#define TABLES (sizeof tables / sizeof *tables)

enum verdict say(enum verdict v, const char *fmt, ...)
{
        static const char *const words[] = { "held", "BROKE", "weak", "skipped" };
        va_list ap;

        printf("%s: ", words[v]);
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        printf("\n");
        fflush(stdout);
        return v;
}

enum verdict must_fail(long r, const char *what)
{
        if (r < 0)
                return say(HELD, "%s: %s", what, strerrorname_np(errno));
        return say(BROKE, "%s works", what);
}

const char *setting(const char *name)
{
        const char *value = getenv(name);

        if (!value) {
                fprintf(stderr, "no %s\n", name);
                _exit(99);
        }
        return value;
}

long setting_number(const char *name)
{
        return strtol(setting(name), NULL, 10);
}

const char *join(const char *dir, const char *name)
{
        static char buffers[8][4096];
        static unsigned turn;
        char *buffer = buffers[turn++ % 8];

        snprintf(buffer, sizeof buffers[0], "%s/%s", dir, name);
        return buffer;
}

bool still_time(long *state, long ms)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        long at = (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
        if (*state == 0)
                *state = at;
        return at - *state < ms;
}

/* Judges how an attempt ended. A signal counts as held: the filter killed it, or the machine has no such way into the kernel. */
static enum verdict judge_end(int status)
{
        if (WIFEXITED(status))
                return (enum verdict)WEXITSTATUS(status);
        if (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV)
                return say(HELD, "killed by signal %d", WTERMSIG(status));
        return say(BROKE, "ended by signal %d", WTERMSIG(status));
}

int main(int argc, char **argv)
{
        if (argc < 2)
                return 99;
        for (size_t i = 0; i < TABLES; i++) {
                for (const struct attempt *a = tables[i]; a->name; a++) {
                        if (strcmp(argv[1], "--list") == 0)
                                printf("%s\n", a->name);
                        if (strcmp(argv[1], a->name) != 0)
                                continue;
                        pid_t pid = fork();
                        if (pid == 0)
                                _exit((int)a->run(argv + 2));
                        int status;
                        if (pid < 0 || waitpid(pid, &status, 0) != pid)
                                return 99;
                        return (int)judge_end(status);
                }
        }
        return strcmp(argv[1], "--list") == 0 ? 0 : 99;
}

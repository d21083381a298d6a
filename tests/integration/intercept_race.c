/* Executes a program while another thread rewrites what is to be executed, for the tests of races against the broker.
 *
 *     race WHAT HOW MILLISECONDS ENOUGH ROUNDS FOLDER
 *
 * WHAT: "path" changes FOLDER/note-good to FOLDER/note-evil and back, "argument" the argument "good" of FOLDER/note, "pointer" the
 * vector so that it points to the other argument. HOW: the caller is a child that has the memory of its parent ("shared"), or the second
 * thread of a process of its own ("thread"). Ends after so many rounds; or after so many milliseconds, if there were enough rounds then. Prints
 * the rounds. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static char path[4096] __attribute__((aligned(8)));
static _Atomic uint32_t *word; /* the four letters that change */
static char argument[8] __attribute__((aligned(8))) = "good";
static char other[8] = "evil";
static char *argv[3] = { path, argument, NULL };
static atomic_bool is_over;

static uint32_t letters(const char *text)
{
        uint32_t value;

        memcpy(&value, text, sizeof(value));
        return value;
}

static void *rewrite(void *what)
{
        for (unsigned turn = 0; !is_over; turn++) {
                if (strcmp(what, "pointer") == 0)
                        *(char *volatile *)&argv[1] = turn & 1 ? other : argument;
                else
                        atomic_store(word, letters(turn & 1 ? "evil" : "good"));
                for (volatile unsigned wait = turn % 61; wait > 0; wait--)
                        ;
        }
        return NULL;
}

static void *execute(void *unused)
{
        (void)unused;
        execve(path, argv, environ);
        _exit(100);
}

static int in_shared_memory(void *unused)
{
        execute(unused);
        return 100;
}

static int by_shared_memory(void)
{
        static char stack[1 << 16] __attribute__((aligned(16)));
        pid_t pid = clone(in_shared_memory, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

        return pid < 0 || waitpid(pid, NULL, 0) < 0 ? -1 : 0;
}

static int by_thread(char *what)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                pthread_t writer, caller;

                if (pthread_create(&writer, NULL, rewrite, what) != 0 ||
                    pthread_create(&caller, NULL, execute, NULL) != 0)
                        _exit(101); /* else it would wait for ever */
                for (;;)
                        pause();
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -1;
        return WIFEXITED(status) && WEXITSTATUS(status) == 101 ? -1 : 0;
}

/* The letters lie at a multiple of four, so that no reader sees half of a change. */
static void lay_out(const char *what, const char *folder)
{
        if (strcmp(what, "path") != 0) {
                snprintf(path, sizeof(path), "%s/note", folder);
                word = (_Atomic uint32_t *)argument;
                return;
        }
        size_t length = (size_t)snprintf(path, sizeof(path), "%s/", folder);
        while ((length + strlen("note-")) % 4 != 0)
                path[length++] = '/';
        snprintf(path + length, sizeof(path) - length, "note-good");
        word = (_Atomic uint32_t *)(path + length + strlen("note-"));
}

static long long now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int main(int argc, char **args)
{
        long rounds = 0, enough, most;
        long long end;
        pthread_t writer;

        if (argc != 7)
                return 2;
        end = now_ms() + atol(args[3]);
        enough = atol(args[4]);
        most = atol(args[5]);
        lay_out(args[1], args[6]);
        bool is_shared = strcmp(args[2], "shared") == 0;
        if (is_shared && pthread_create(&writer, NULL, rewrite, args[1]) != 0)
                return 3;
        for (; rounds < most && (rounds < enough || now_ms() < end); rounds++)
                if ((is_shared ? by_shared_memory() : by_thread(args[1])) < 0)
                        return 4;
        is_over = true;
        printf("%ld\n", rounds);
        return 0;
}

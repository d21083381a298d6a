/* farhand-preload.so: what ld.so loads into each program of a command whose starts the kernel does not let wait: it executes
 * farhand-execve-wrapper in place of every program (intercept/preloaded.h), and keeps the socket open that the wrapper needs.
 *
 * It lives in other people's programs. So it needs libc alone, allocates nothing, and what it does for execve may be done in a child of
 * vfork, in a thread, and in a handler of signals.
 *
 * It fails closed: a start that cannot be handed to the wrapper fails. It is no boundary: a program that makes its system calls itself is
 * not seen. */
#include "intercept/preloaded.h"
#include "sandbox/exec_pair.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define MORE_WORDS \
        8 /* than what the program gives: the wrapper, the file, two variables, and the ends of the lists */
/* Pointers that are kept on the stack, which may be small. More are kept in pages; when a child of vfork executes a program these stay
 * with its parent. */
#define ON_STACK 1024
#define SOCKET_ENTRY ESCALATE_VARIABLE "=" EXEC_PAIR_NUMBER_TEXT

extern char **environ;

typedef int spawn_function(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[], char *const env[]);

/* Written before main, and only read afterwards. */
static struct {
        bool is_on;
        char all[PRELOADED_VARIABLE_BYTES]; /* the variable for programs that are to ask again, */
        char off[PRELOADED_VARIABLE_BYTES]; /* and for programs that are not */
        const char *wrapper;                /* in `all` */
        bool is_shell_only;
        struct stat self;
        spawn_function *spawn;
} hook;

/* Returns what stands behind the colon, or NULL. */
static char *behind_colon(char *text)
{
        char *colon = text ? strchr(text, ':') : NULL;
        return colon ? colon + 1 : NULL;
}

__attribute__((constructor)) static void begin(void)
{
        const char *given = getenv(PRELOADED_VARIABLE);

        hook.spawn = (spawn_function *)(uintptr_t)dlsym(RTLD_NEXT, "posix_spawn");
        if (!given || !getenv(ESCALATE_VARIABLE))
                return; /* an escalated program, or one outside of the scope */
        hook.is_shell_only = strncmp(given, PRELOADED_SHELL ":", strlen(PRELOADED_SHELL ":")) == 0;
        const char *paths = strchr(given, ':');
        (void)snprintf(hook.all, sizeof(hook.all), PRELOADED_VARIABLE "=%s", given);
        (void)snprintf(hook.off, sizeof(hook.off), PRELOADED_VARIABLE "=" PRELOADED_OFF "%s",
                       paths ? paths : "");
        hook.wrapper = behind_colon(behind_colon(hook.all));
        if (!hook.wrapper)
                hook.wrapper = "/"; /* what somebody has made of the variable: nothing can be executed */
        if (hook.is_shell_only)
                (void)stat("/proc/self/exe", &hook.self);
        hook.is_on = true;
}

static long raw_execve(const char *path, char *const argv[], char *const env[])
{
        return syscall(SYS_execve, path, argv, env);
}

/* ---- handing a start to the wrapper ---- */

/* Returns 0, or the errno with which execve would fail now. Programs that search PATH themselves rely on it. */
static int check(const char *path)
{
        struct stat st;
        if (access(path, X_OK) < 0 || stat(path, &st) < 0)
                return errno;
        return S_ISREG(st.st_mode) ? 0 : EACCES;
}

static size_t count(char *const list[])
{
        size_t n = 0;
        while (list && list[n])
                n++;
        return n;
}

static bool is_ours(const char *entry)
{
        return strncmp(entry, PRELOADED_VARIABLE "=", strlen(PRELOADED_VARIABLE "=")) == 0 ||
               strncmp(entry, ESCALATE_VARIABLE "=", strlen(ESCALATE_VARIABLE "=")) == 0;
}

/* With scope "shell" only what the shell itself starts is asked about, and what it starts of itself asks again. */
static const char *variable_for(const char *path)
{
        struct stat st;
        bool is_again = !hook.is_shell_only || (stat(path, &st) == 0 && st.st_dev == hook.self.st_dev &&
                                                st.st_ino == hook.self.st_ino);
        return is_again ? hook.all : hook.off;
}

/* Fills the lists that the wrapper gets: `to` has room for all of both, and for the pointers that are added. */
static void fill(char **to, const char *path, char *const argv[], size_t argc, char *const env[],
                 char ***ret_env)
{
        *to++ = (char *)(uintptr_t)hook.wrapper;
        *to++ = (char *)(uintptr_t)path;
        for (size_t i = 0; i < argc; i++)
                *to++ = argv[i];
        if (argc == 0)
                *to++ = (char *)(uintptr_t) ""; /* as the kernel has it */
        *to++ = NULL;
        *ret_env = to;
        for (size_t i = 0; env && env[i]; i++)
                if (!is_ours(env[i]))
                        *to++ = env[i];
        *to++ = (char *)(uintptr_t)SOCKET_ENTRY;
        *to++ = (char *)(uintptr_t)variable_for(path);
        *to = NULL;
}

/* What a start is made with when not by execve. */
struct spawning {
        pid_t *pid;
        const posix_spawn_file_actions_t *actions;
        const posix_spawnattr_t *attributes;
};

static int go(const struct spawning *spawning, char **argv, char **env)
{
        /* A program that marks all its descriptors keeps this one out of the wrapper, which could not ask then. */
        (void)syscall(SYS_fcntl, EXEC_PAIR_NUMBER, F_SETFD, 0);
        if (spawning)
                return hook.spawn(spawning->pid, argv[0], spawning->actions, spawning->attributes, argv, env);
        raw_execve(argv[0], argv, env);
        return errno;
}

/* Returns an errno; with `spawning` 0 when the program was started. */
static int start(const char *path, char *const argv[], char *const env[], const struct spawning *spawning)
{
        size_t argc = count(argv), room = argc + count(env) + MORE_WORDS;
        char *on_stack[ON_STACK], **lists = on_stack, **new_env;

        if (room > ON_STACK)
                lists = mmap(NULL, room * sizeof(*lists), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);
        if (lists == MAP_FAILED)
                return ENOMEM;
        fill(lists, path, argv, argc, env, &new_env);
        int r = go(spawning, lists, new_env);
        if (lists != on_stack)
                (void)munmap(lists, room * sizeof(*lists));
        return r;
}

static int execute(const char *path, char *const argv[], char *const env[])
{
        if (!hook.is_on)
                return (int)raw_execve(path, argv, env);
        int r = check(path);
        if (r == 0)
                r = start(path, argv, env, NULL);
        errno = r;
        return -1;
}

/* ---- what programs call ---- */

EXPORTED int execve(const char *path, char *const argv[], char *const env[])
{
        return execute(path, argv, env);
}

EXPORTED int execv(const char *path, char *const argv[])
{
        return execute(path, argv, environ);
}

/* Finds a program as execvp does: the first that can be executed, in the directories of PATH. Returns 0 or an errno. */
static int search(const char *file, char *ret)
{
        const char *at = getenv("PATH");
        int r = ENOENT;

        if (strlen(file) >= PATH_MAX)
                return ENAMETOOLONG;
        if (strchr(file, '/') || *file == '\0') {
                memcpy(ret, file, strlen(file) + 1);
                return *file ? check(file) : ENOENT;
        }
        for (at = at ? at : "/bin:/usr/bin";; at++) {
                size_t n = strcspn(at, ":");
                int length = snprintf(ret, PATH_MAX, "%.*s%s%s", (int)n, at, n > 0 ? "/" : "./", file);
                int e = length < 0 || length >= PATH_MAX ? ENAMETOOLONG : check(ret);
                if (e == 0)
                        return 0;
                if (e == EACCES)
                        r = EACCES;
                at += n;
                if (*at == '\0')
                        return r;
        }
}

EXPORTED int execvpe(const char *file, char *const argv[], char *const env[])
{
        char path[PATH_MAX];
        int r = search(file, path);

        if (r == 0)
                return execute(path, argv, env);
        errno = r;
        return -1;
}

EXPORTED int execvp(const char *file, char *const argv[])
{
        return execvpe(file, argv, environ);
}

/* Takes the arguments behind `first`. Returns false when there are more than anybody writes into a call. */
static bool arguments(const char *first, va_list *rest, char *ret[ON_STACK])
{
        size_t argc = 0;
        for (const char *one = first; argc < ON_STACK; one = va_arg(*rest, char *)) {
                ret[argc++] = (char *)(uintptr_t)one;
                if (!one)
                        return true;
        }
        errno = E2BIG;
        return false;
}

EXPORTED int execl(const char *path, const char *first, ...)
{
        char *argv[ON_STACK];
        va_list rest;
        va_start(rest, first);
        bool is_whole = arguments(first, &rest, argv);
        va_end(rest);
        return is_whole ? execute(path, argv, environ) : -1;
}

EXPORTED int execlp(const char *file, const char *first, ...)
{
        char *argv[ON_STACK];
        va_list rest;
        va_start(rest, first);
        bool is_whole = arguments(first, &rest, argv);
        va_end(rest);
        return is_whole ? execvpe(file, argv, environ) : -1;
}

EXPORTED int execle(const char *path, const char *first, ...)
{
        char *argv[ON_STACK], *const *env = NULL;
        va_list rest;
        va_start(rest, first);
        bool is_whole = arguments(first, &rest, argv);
        if (is_whole)
                env = va_arg(rest, char *const *);
        va_end(rest);
        return is_whole ? execute(path, argv, env) : -1;
}

/* Executes what a descriptor stands for by the path that it has, since the wrapper may not get the descriptor. What has none fails. */
static int execute_at(int dir, const char *path, char *const argv[], char *const env[])
{
        char link[32], full[2 * PATH_MAX];
        (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
        ssize_t n = readlink(link, full, PATH_MAX);
        if (n < 0 || n == PATH_MAX) {
                errno = n < 0 ? EBADF : ENAMETOOLONG;
                return -1;
        }
        full[n] = '\0';
        if (*path && snprintf(full + n, PATH_MAX, "/%s", path) >= PATH_MAX) {
                errno = ENAMETOOLONG;
                return -1;
        }
        return execute(full, argv, env);
}

EXPORTED int fexecve(int fd, char *const argv[], char *const env[])
{
        if (!hook.is_on)
                return (int)syscall(SYS_execveat, fd, "", argv, env, AT_EMPTY_PATH);
        return execute_at(fd, "", argv, env);
}

EXPORTED int execveat(int dir, const char *path, char *const argv[], char *const env[], int flags)
{
        struct stat st;
        if (!hook.is_on)
                return (int)syscall(SYS_execveat, dir, path, argv, env, flags);
        if (*path == '\0' && !(flags & AT_EMPTY_PATH)) {
                errno = ENOENT;
                return -1;
        }
        if (flags & AT_SYMLINK_NOFOLLOW && *path && fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(st.st_mode)) {
                errno = ELOOP;
                return -1;
        }
        if (*path && (*path == '/' || dir == AT_FDCWD))
                return execute(path, argv, env);
        return execute_at(dir, path, argv, env);
}

EXPORTED int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
        const struct spawning spawning = { pid, actions, attributes };
        if (!hook.spawn)
                return ENOSYS;
        if (!hook.is_on)
                return hook.spawn(pid, path, actions, attributes, argv, env);
        /* An action may change the directory in the child: then the wrapper looks. */
        int r = *path == '/' || !actions ? check(path) : 0;
        return r ? r : start(path, argv, env, &spawning);
}

EXPORTED int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
        char path[PATH_MAX];
        if (strchr(file, '/'))
                return posix_spawn(pid, file, actions, attributes, argv, env);
        int r = search(file, path);
        return r ? r : posix_spawn(pid, path, actions, attributes, argv, env);
}

/* ---- the socket, which programs that close everything would close ---- */

EXPORTED int close(int fd)
{
        if (hook.is_on && fd == EXEC_PAIR_NUMBER) {
                errno = EBADF;
                return -1;
        }
        return (int)syscall(SYS_close, fd);
}

EXPORTED int close_range(unsigned first, unsigned last, int flags)
{
        long r = 0;
        if (!hook.is_on || first > EXEC_PAIR_NUMBER || last < EXEC_PAIR_NUMBER)
                return (int)syscall(SYS_close_range, first, last, flags);
        if (first < EXEC_PAIR_NUMBER)
                r = syscall(SYS_close_range, first, EXEC_PAIR_NUMBER - 1, flags);
        if (r == 0 && last > EXEC_PAIR_NUMBER)
                r = syscall(SYS_close_range, EXEC_PAIR_NUMBER + 1, last,
                            (unsigned)flags & ~CLOSE_RANGE_UNSHARE);
        return (int)r;
}

EXPORTED void closefrom(int first)
{
        (void)close_range(first > 0 ? (unsigned)first : 0, UINT_MAX, 0);
}

static int duplicate(int from, int to, int flags)
{
        if (hook.is_on && to == EXEC_PAIR_NUMBER) {
                errno = EBUSY;
                return -1;
        }
        return (int)syscall(SYS_dup3, from, to, flags);
}

EXPORTED int dup2(int from, int to)
{
        if (from == to)
                return fcntl(from, F_GETFD) < 0 ? -1 : to;
        return duplicate(from, to, 0);
}

EXPORTED int dup3(int from, int to, int flags)
{
        return duplicate(from, to, flags);
}

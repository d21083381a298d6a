/* farhand-preload.so: what ld.so loads into each program of a command whose starts the kernel does not let wait: it asks before the program
 * executes another, or has farhand-execve-wrapper executed in its place (intercept/preloaded.h), and keeps the socket open over which
 * both ask.
 *
 * It lives in other people's programs. So it needs libc alone, allocates nothing, and what it does for execve may be done in a child of
 * vfork, in a thread, and in a handler of signals.
 *
 * It fails closed: a start about which nobody can be asked fails. It is no boundary: a program that makes its system calls itself is
 * not seen. */
#include "intercept/preloaded.h"
#include "preload/asking.h"
#include "preload/giving.h"
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
/* How many pointers are passed on beside those of the program: the wrapper, the file, three variables, the ends of the lists. */
#define MORE_WORDS 8
/* Pointers that are kept on the stack, which may be small. More are kept in pages; when a child of vfork executes a program these stay
 * with its parent. */
#define ON_STACK 256
#define ARGUMENTS_MAX 1024 /* of execl and its like */
#define SMALL_BYTES 65536  /* of arguments and environment together; every kernel accepts twice as much */
#define TEXT_BYTES 768     /* as long as the paths are short, nothing needs a page of its own */
#define LIBRARIES "LD_PRELOAD"
#define SOCKET_ENTRY ESCALATE_VARIABLE "=" EXEC_PAIR_NUMBER_TEXT

extern char **environ;

typedef int spawn_function(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[], char *const env[]);

/* Written before main, and only read afterwards. The texts stand one behind the other, so that few pages are written: each program of the
 * command waits for them. */
static struct {
        bool is_on, is_shell_only;
        const char *all;       /* the variable for programs that are to ask again, */
        const char *off;       /* and for programs that are not */
        const char *wrapper;   /* in `all` */
        const char *libraries; /* LD_PRELOAD with this library alone */
        const char *library;   /* in `libraries`; "": the variable makes no sense */
        struct stat self;
        char *free;
        char texts[TEXT_BYTES];
} hook;

/* Joins `first` and `n` bytes of `second` in hook.texts, which has room for them. Returns the joined text. */
static const char *keep(const char *first, const char *second, size_t n)
{
        char *text = hook.free;
        size_t first_n = strlen(first);
        memcpy(text, first, first_n);
        memcpy(text + first_n, second, n);
        text[first_n + n] = '\0';
        hook.free += first_n + n + 1;
        return text;
}

/* Makes room for three texts of which each has at most `n` bytes besides a name. */
static bool make_room(size_t n)
{
        size_t need = 3 * (n + sizeof(PRELOADED_VARIABLE "=" PRELOADED_OFF));
        hook.free = hook.texts;
        if (need > sizeof(hook.texts))
                hook.free = mmap(NULL, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return hook.free != MAP_FAILED;
}

/* Takes apart what the server has written into the variable: WORD:LIBRARY:WRAPPER. Where a program has put another text there, its
 * starts fail. */
static void begin_with(const char *given)
{
        const char *paths = strchr(given, ':'), *wrapper = paths ? strchr(paths + 1, ':') : NULL;
        hook.all = hook.off = hook.library = "";
        hook.wrapper = "/";
        if (!wrapper || !make_room(strlen(given)))
                return;
        hook.all = keep(PRELOADED_VARIABLE "=", given, strlen(given));
        hook.off = keep(PRELOADED_VARIABLE "=" PRELOADED_OFF, paths, strlen(paths));
        hook.libraries = keep(LIBRARIES "=", paths + 1, (size_t)(wrapper - paths - 1));
        hook.wrapper = hook.all + strlen(PRELOADED_VARIABLE "=") + (wrapper + 1 - given);
        hook.library = hook.libraries + strlen(LIBRARIES "=");
}

__attribute__((constructor)) static void begin(void)
{
        const char *given = getenv(PRELOADED_VARIABLE);
        if (!given || !getenv(ESCALATE_VARIABLE))
                return; /* an escalated program, or one outside of the scope */
        begin_with(given);
        hook.is_shell_only = strncmp(given, PRELOADED_SHELL ":", strlen(PRELOADED_SHELL ":")) == 0;
        if (hook.is_shell_only)
                (void)stat("/proc/self/exe", &hook.self);
        hook.is_on = true;
}

/* Returns the function of libc, or NULL. Most programs never call it, and are not to wait until it is found. */
static spawn_function *libc_spawn(void)
{
        static _Atomic(spawn_function *) found;
        spawn_function *spawn = found;
        if (!spawn)
                found = spawn = (spawn_function *)(uintptr_t)dlsym(RTLD_NEXT, "posix_spawn");
        return spawn;
}

static long raw_execve(const char *path, char *const argv[], char *const env[])
{
        return syscall(SYS_execve, path, argv, env);
}

/* ---- before a start ---- */

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
        return asking_value(entry, PRELOADED_VARIABLE) || asking_value(entry, ESCALATE_VARIABLE) ||
               asking_value(entry, PRELOADED_STREAM_VARIABLE);
}

/* Returns whether the program, once it runs, asks about its own starts. With scope "shell" it does only when it is the shell
 * itself. */
static bool asks_again(const char *path)
{
        struct stat st;
        return !hook.is_shell_only ||
               (stat(path, &st) == 0 && st.st_dev == hook.self.st_dev && st.st_ino == hook.self.st_ino);
}

/* Memory for lists of pointers, and for a text behind them. */
struct lists {
        char *on_stack[ON_STACK], **p;
        size_t bytes;
};

/* Returns 0 or an errno. */
static int lists_begin(struct lists *l, size_t pointers, size_t text_bytes)
{
        l->bytes = pointers * sizeof(*l->p) + text_bytes;
        l->p = l->on_stack;
        if (l->bytes > sizeof(l->on_stack))
                l->p = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return l->p == MAP_FAILED ? ENOMEM : 0;
}

static void lists_end(struct lists *l)
{
        if (l->p != l->on_stack)
                (void)munmap(l->p, l->bytes);
}

static char *mutable(const char *text)
{
        return (char *)(uintptr_t)text;
}

/* Lets the next program inherit the socket over which it asks, also when this program has marked all its descriptors close-on-exec. */
static void pass_socket_on(void)
{
        (void)syscall(SYS_fcntl, EXEC_PAIR_NUMBER, F_SETFD, 0);
}

/* ---- a start that runs ---- */

/* Returns LD_PRELOAD for the next program, which is to have this library if it asks again; NULL: it has none. `room` is for a new text. */
static char *libraries_for(const char *entry, bool is_again, char *room)
{
        const char *list = asking_value(entry, LIBRARIES), *rest = asking_behind(list, hook.library);
        if (!rest == !is_again)
                return mutable(entry);
        if (rest && !*rest)
                return NULL;
        if (rest)
                (void)stpcpy(stpcpy(room, LIBRARIES "="), rest);
        else if (*list)
                (void)stpcpy(stpcpy(stpcpy(room, hook.libraries), ":"), list);
        return rest || *list ? room : mutable(hook.libraries);
}

/* Fills the environment of the next program. ld.so takes the last LD_PRELOAD and programs the first: only one is kept. */
static void fill_env(char **to, const char *path, char *const env[], char *room)
{
        bool is_again = asks_again(path), has_libraries = false;
        for (size_t i = 0; env && env[i]; i++) {
                char *entry = mutable(env[i]);
                if (asking_value(entry, LIBRARIES)) {
                        entry = has_libraries ? NULL : libraries_for(entry, is_again, room);
                        has_libraries = true;
                }
                if (entry && !is_ours(entry))
                        *to++ = entry;
        }
        if (is_again) {
                if (!has_libraries)
                        *to++ = mutable(hook.libraries);
                *to++ = mutable(SOCKET_ENTRY);
                *to++ = mutable(hook.all);
        }
        *to = NULL;
}

/* Executes what may run. Returns an errno. */
static int run(const char *path, char *const argv[], char *const env[])
{
        struct lists l;
        size_t text = 0;
        for (size_t i = 0; env && env[i]; i++)
                if (asking_value(env[i], LIBRARIES)) {
                        text = strlen(env[i]) + strlen(hook.libraries) + 2;
                        break;
                }
        size_t room = count(env) + MORE_WORDS;
        int r = lists_begin(&l, room, text);
        if (r)
                return r;
        fill_env(l.p, path, env, (char *)(l.p + room));
        pass_socket_on();
        raw_execve(path, argv, l.p);
        r = errno;
        lists_end(&l);
        return r;
}

/* ---- handing a start to the wrapper ---- */

/* What posix_spawn gets besides the program, its arguments and its environment. */
struct spawning {
        pid_t *pid;
        const posix_spawn_file_actions_t *actions;
        const posix_spawnattr_t *attributes;
};

/* Fills the lists that the wrapper gets. `stream`: what it is told about a stream, or NULL. */
static void fill(char **to, const char *path, char *const argv[], size_t argc, char *const env[],
                 const char *stream, char ***ret_env)
{
        *to++ = mutable(hook.wrapper);
        *to++ = mutable(path);
        for (size_t i = 0; i < argc; i++)
                *to++ = argv[i];
        if (argc == 0)
                *to++ = mutable(""); /* as the kernel has it */
        *to++ = NULL;
        *ret_env = to;
        for (size_t i = 0; env && env[i]; i++)
                if (!is_ours(env[i]))
                        *to++ = env[i];
        *to++ = mutable(SOCKET_ENTRY);
        *to++ = mutable(asks_again(path) ? hook.all : hook.off);
        if (stream)
                *to++ = mutable(stream);
        *to = NULL;
}

static int go(const struct spawning *spawning, char **argv, char **env)
{
        pass_socket_on();
        if (spawning)
                return libc_spawn()(spawning->pid, argv[0], spawning->actions, spawning->attributes, argv,
                                    env);
        raw_execve(argv[0], argv, env);
        return errno;
}

/* Returns an errno; with `spawning` 0 when the program was started. */
static int start(const char *path, char *const argv[], char *const env[], const char *stream,
                 const struct spawning *spawning)
{
        struct lists l;
        char **new_env;
        size_t argc = count(argv);
        int r = lists_begin(&l, argc + count(env) + MORE_WORDS, 0);
        if (r)
                return r;
        fill(l.p, path, argv, argc, env, stream, &new_env);
        r = go(spawning, l.p, new_env);
        lists_end(&l);
        return r;
}

/* Returns whether nothing will be too long for the wrapper: what was handed over cannot be taken back. */
static bool wrapper_can_start(char *const argv[], char *const env[])
{
        size_t bytes = 0;
        for (size_t i = 0; argv && argv[i] && bytes < SMALL_BYTES; i++)
                bytes += strlen(argv[i]) + 1 + sizeof(char *);
        for (size_t i = 0; env && env[i] && bytes < SMALL_BYTES; i++)
                bytes += strlen(env[i]) + 1 + sizeof(char *);
        return bytes < SMALL_BYTES && access(hook.wrapper, X_OK) == 0;
}

/* Lets the wrapper read the answer. The number may not be that of a standard stream, which the wrapper writes to. Returns an errno. */
static int start_answered(const char *path, char *const argv[], char *const env[], int stream,
                          bool is_escalated)
{
        char variable[sizeof(PRELOADED_STREAM_VARIABLE "=" PRELOADED_GIVEN) + 16];
        bool is_given = is_escalated && wrapper_can_start(argv, env) && giving_give(stream, EXEC_PAIR_NUMBER);
        long fd = syscall(SYS_fcntl, stream, F_DUPFD, STDERR_FILENO + 1);
        int r = errno;
        if (fd >= 0) {
                char *to = stpcpy(variable, PRELOADED_STREAM_VARIABLE "=");
                giving_number(stpcpy(to, is_given ? PRELOADED_GIVEN : ""), (unsigned)fd);
                r = start(path, argv, env, variable, NULL);
                (void)syscall(SYS_close, fd);
        }
        (void)syscall(SYS_close, stream);
        return r;
}

static int execute(const char *path, char *const argv[], char *const env[])
{
        int stream, r;
        if (!hook.is_on)
                return (int)raw_execve(path, argv, env);
        const struct asking a = { EXEC_PAIR_NUMBER, path, argv, env, hook.library };
        enum asked asked = ASKED_NOBODY;
        r = check(path);
        if (r == 0 && *hook.library)
                asked = asking_ask(&a, &stream);
        if (asked == ASKED_RUN)
                r = run(path, argv, env);
        else if (asked != ASKED_NOBODY)
                r = start_answered(path, argv, env, stream, asked == ASKED_ESCALATE);
        else if (r == 0)
                r = start(path, argv, env, NULL, NULL);
        errno = r;
        return -1;
}

/* Executes a program that was searched for: what the kernel does not know as a program is a script for /bin/sh. */
static int execute_found(const char *path, char *const argv[], char *const env[])
{
        struct lists l;
        size_t argc = count(argv);
        (void)execute(path, argv, env);
        int r = errno;
        if (r != ENOEXEC || lists_begin(&l, argc + MORE_WORDS, 0) != 0)
                return -1;
        l.p[0] = mutable("/bin/sh");
        l.p[1] = mutable(path);
        for (size_t i = 1; i <= argc; i++)
                l.p[i + 1] = argv[i];
        l.p[MAX(argc, (size_t)1) + 1] = NULL;
        (void)execute(l.p[0], l.p, env);
        r = errno;
        lists_end(&l);
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
                return execute_found(path, argv, env);
        errno = r;
        return -1;
}

EXPORTED int execvp(const char *file, char *const argv[])
{
        return execvpe(file, argv, environ);
}

/* Takes the arguments behind `first`. Returns false when there are more than anybody writes into a call. */
static bool arguments(const char *first, va_list *rest, char *ret[ARGUMENTS_MAX])
{
        size_t argc = 0;
        for (const char *one = first; argc < ARGUMENTS_MAX; one = va_arg(*rest, char *)) {
                ret[argc++] = (char *)(uintptr_t)one;
                if (!one)
                        return true;
        }
        errno = E2BIG;
        return false;
}

EXPORTED int execl(const char *path, const char *first, ...)
{
        char *argv[ARGUMENTS_MAX];
        va_list rest;
        va_start(rest, first);
        bool is_whole = arguments(first, &rest, argv);
        va_end(rest);
        return is_whole ? execute(path, argv, environ) : -1;
}

EXPORTED int execlp(const char *file, const char *first, ...)
{
        char *argv[ARGUMENTS_MAX];
        va_list rest;
        va_start(rest, first);
        bool is_whole = arguments(first, &rest, argv);
        va_end(rest);
        return is_whole ? execvpe(file, argv, environ) : -1;
}

EXPORTED int execle(const char *path, const char *first, ...)
{
        char *argv[ARGUMENTS_MAX], *const *env = NULL;
        va_list rest;
        va_start(rest, first);
        bool is_whole = arguments(first, &rest, argv);
        if (is_whole)
                env = va_arg(rest, char *const *);
        va_end(rest);
        return is_whole ? execute(path, argv, env) : -1;
}

/* Executes the file of a descriptor by its path, because the wrapper may not get the descriptor. A file without a path fails. */
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
        spawn_function *spawn = libc_spawn();
        if (!spawn)
                return ENOSYS;
        if (!hook.is_on)
                return spawn(pid, path, actions, attributes, argv, env);
        /* An action may change the directory in the child, so that only the wrapper can look for a relative path. */
        int r = *path == '/' || !actions ? check(path) : 0;
        return r ? r : start(path, argv, env, NULL, &spawning);
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

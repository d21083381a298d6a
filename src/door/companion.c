/* companion: starts the command of a door, passes signals on to it, and waits for its end. */
#include "door/companion.h"

#include "base/arena.h"
#include "base/slice.h"
#include "cli/pump.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define URL_VARIABLE "CODEX_EXEC_SERVER_URL"

int companion_watch_signals(struct companion *c, struct err *err)
{
        static const int watched[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD };
        sigset_t set;
        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_LEN(watched); i++)
                sigaddset(&set, watched[i]);
        int fd = sigprocmask(SIG_BLOCK, &set, &c->mask) < 0 ? -1 : signalfd(-1, &set, SFD_CLOEXEC);
        return fd < 0 ? err_set(err, 0, -errno, "signalfd: %s", errno_text(errno)) : fd;
}

static bool has_name(const char *variable, const char *name)
{
        size_t n = strlen(name);
        return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

/* Returns our variables with the URL. FARHAND_TOKEN and the variable `without`, which hold tokens for a server, are left out: the
 * command does not need them. */
static char **make_env(struct arena *a, const char *url, const char *without)
{
        size_t count = 0, n = 0;
        while (environ && environ[count])
                count++;
        char **env = arena_alloc(a, (count + 2) * sizeof(*env));
        for (size_t i = 0; i < count; i++)
                if (!has_name(environ[i], URL_VARIABLE) && !has_name(environ[i], "FARHAND_TOKEN") &&
                    !(without && has_name(environ[i], without)))
                        env[n++] = environ[i];
        env[n++] = (char *)arena_printf(a, URL_VARIABLE "=%s", url);
        env[n] = NULL;
        return env;
}

int companion_start(struct companion *c, char **argv, const char *url, const char *without, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        posix_spawnattr_t attributes;
        sigset_t pipe;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE); /* we ignore SIGPIPE; the command must not */
        int r = posix_spawnattr_init(&attributes);
        if (r == 0) {
                r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
                r = r ? r : posix_spawnattr_setsigmask(&attributes, &c->mask);
                r = r ? r : posix_spawnattr_setsigdefault(&attributes, &pipe);
                r = r ? r
                      : posix_spawnp(&c->pid, argv[0], NULL, &attributes, argv, make_env(&a, url, without));
                (void)posix_spawnattr_destroy(&attributes);
        }
        if (r == 0)
                return 0;
        (void)err_set(err, 0, -r, "cannot run %s: %s", argv[0], errno_text(r));
        return r == ENOENT ? PUMP_NOT_FOUND : r == EACCES || r == ENOEXEC ? PUMP_CANNOT_EXECUTE : PUMP_FAILED;
}

bool companion_on_signal(const struct companion *c, const struct signalfd_siginfo *info, int *ret_code)
{
        int status;
        /* A signal that a program has sent (ssi_code <= 0) is passed on. One from the kernel, as after Ctrl-C, has gone to the whole
         * process group: the command has it already. */
        if (info->ssi_signo != SIGCHLD && info->ssi_code <= 0)
                (void)kill(c->pid, (int)info->ssi_signo);
        if (waitpid(c->pid, &status, WNOHANG) != c->pid)
                return false;
        *ret_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        return true;
}

/* child: starts a program with a socket as its stdin and stdout, and ends it.
 *
 * It uses posix_spawn, because fork() would copy the whole program that uses the library. The started program handles all signals
 * as after a login, whatever our own process ignores or blocks.
 */
#include "transport/child.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_name(const char *variable, const char *name)
{
        size_t n = strlen(name);
        return strncmp(variable, name, n) == 0 && (variable[n] == '=' || variable[n] == '\0');
}

/* Returns whether one of the added variables replaces `variable`. */
static bool is_replaced(const char *variable, const char *const *added)
{
        size_t n = strcspn(variable, "=");
        for (; added && *added; added++)
                if (strncmp(*added, variable, n) == 0 && (*added)[n] == '=')
                        return true;
        return false;
}

/* Makes the variables of the program: those of our process except spec->without, and the added ones. */
static char **make_env(struct arena *a, const struct child_spec *spec)
{
        size_t count = 0, added = 0, n = 0;
        while (environ && environ[count])
                count++;
        while (spec->env && spec->env[added])
                added++;
        char **env = arena_alloc(a, (count + added + 1) * sizeof(*env));
        for (size_t i = 0; i < count; i++)
                if (!has_name(environ[i], "FARHAND_TOKEN") &&
                    !(spec->without && has_name(environ[i], spec->without)) &&
                    !is_replaced(environ[i], spec->env))
                        env[n++] = environ[i];
        for (size_t i = 0; i < added; i++)
                env[n++] = arena_dup(a, slice_from_str(spec->env[i]));
        env[n] = NULL;
        return env;
}

static int set_attributes(posix_spawnattr_t *attributes, const struct child_spec *spec)
{
        sigset_t blocked, all;
        sigemptyset(&blocked);
        if (spec->is_deaf) {
                sigaddset(&blocked, SIGINT);
                sigaddset(&blocked, SIGQUIT);
        }
        sigfillset(&all);
        int flags =
                POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (spec->is_apart ? POSIX_SPAWN_SETPGROUP : 0);
        int r = posix_spawnattr_setflags(attributes, (short)flags);
        r = r ? r : posix_spawnattr_setsigmask(attributes, &blocked);
        r = r ? r : posix_spawnattr_setsigdefault(attributes, &all);
        return r ? r : posix_spawnattr_setpgroup(attributes, 0);
}

static int set_actions(posix_spawn_file_actions_t *actions, int theirs, const char *cwd)
{
        int r = posix_spawn_file_actions_adddup2(actions, theirs, STDIN_FILENO);
        r = r ? r : posix_spawn_file_actions_adddup2(actions, theirs, STDOUT_FILENO);
        /* The started program must not get the other descriptors of our process, which need not have O_CLOEXEC. */
        r = r ? r : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
        if (r == 0 && cwd)
                r = posix_spawn_file_actions_addchdir_np(actions, cwd);
        return r;
}

int child_start(const struct child_spec *spec, int *ret_fd, pid_t *ret_pid, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_set(err, 0, -errno, "no socket for `%s`: %s", spec->argv[0], errno_text(errno));
        _close_ int ours = pair[0];
        _close_ int theirs = pair[1];

        posix_spawnattr_t attributes;
        posix_spawn_file_actions_t actions;
        if ((errno = posix_spawnattr_init(&attributes)) != 0)
                return err_set(err, 0, -errno, "cannot start `%s`: %s", spec->argv[0], errno_text(errno));
        if ((errno = posix_spawn_file_actions_init(&actions)) != 0) {
                (void)posix_spawnattr_destroy(&attributes);
                return err_set(err, 0, -errno, "cannot start `%s`: %s", spec->argv[0], errno_text(errno));
        }
        pid_t pid = 0;
        int r = set_attributes(&attributes, spec);
        r = r ? r : set_actions(&actions, theirs, spec->cwd);
        if (r == 0)
                r = posix_spawnp(&pid, spec->argv[0], &actions, &attributes, (char *const *)spec->argv,
                                 make_env(&a, spec));
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)posix_spawnattr_destroy(&attributes);
        if (r != 0)
                return err_set(err, 0, -r, "cannot start `%s`: %s", spec->argv[0], errno_text(r));
        if ((r = fd_set_nonblock(ours, true)) < 0) {
                (void)child_end(pid, 0);
                return err_set(err, 0, r, "cannot talk to `%s`: %s", spec->argv[0], errno_text(r));
        }
        *ret_fd = TAKE_FD(ours);
        *ret_pid = pid;
        return 0;
}

void child_terminate(pid_t pid)
{
        siginfo_t info = { 0 };
        /* See child_end: only a child of ours that still runs may be signalled. It is not reaped here. */
        if (pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
                (void)kill(pid, SIGTERM);
}

int child_end(pid_t pid, int patience_ms)
{
        int status = -1;
        if (pid <= 0)
                return status;
        /* Where the kernel has no pidfd the program is killed at once: without a pidfd only a signal handler could wait with a time
         * limit. */
        _close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
        uint64_t end = clock_mono_ms() + (uint64_t)patience_ms;
        for (;;) {
                /* The program may be signalled only when waitpid says that it is our child and still runs. Other code of our
                 * process may have reaped it (by waitpid(-1), or because SIGCHLD is ignored), and then another process may have its
                 * pid. */
                pid_t r = waitpid(pid, &status, WNOHANG);
                if (r != 0)
                        return r == pid ? status : -1;
                uint64_t now = clock_mono_ms();
                if (fd < 0 || now >= end)
                        break;
                (void)poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, (int)(end - now));
        }
        (void)kill(pid, SIGKILL);
        pid_t r;
        while ((r = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
                ;
        return r == pid ? status : -1;
}

/* background: finds the background server of the user, or starts it.
 *
 * A lock makes two commands that want to start the server at once take turns. The server gets a session (setsid) of its own, so
 * that it does not end with the terminal. The server ends by itself when it has had no client session for ten minutes.
 */
#include "cli/background.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDLE_SECONDS "600"
#define KEEP_SECONDS "3600" /* how long the server keeps an ended process: people ask later than programs */
#define START_MS 15000
#define URL_BYTES 256
#define STARTED_MAX 4
#define RETRY_FIRST_MS 10 /* between two attempts; each pause is twice as long as the one before, up to: */
#define RETRY_LAST_MS 200

/* ---- the directory ---- */

/* Makes the directory if it does not exist, and checks that only our user can use it. Returns a descriptor or -errno. */
static int open_directory(const char *path, struct err *err)
{
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return err_set(err, 0, -errno, "%s: %s", path, errno_text(errno));
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return err_set(err, 0, -errno, "%s: %s", path,
                               errno == ELOOP || errno == ENOTDIR
                                       ? "it is a link or a file, and must be a directory"
                                       : errno_text(errno));
        struct stat st;
        const char *why = fstat(fd, &st) < 0       ? errno_text(errno)
                          : st.st_uid != geteuid() ? "it belongs to another user"
                          : (st.st_mode & 077)     ? "other users may enter it: its mode must be 0700"
                                                   : NULL;
        if (!why)
                return fd;
        fd_close(fd);
        return err_set(err, 0, -EPERM, "%s: %s", path, why);
}

static const char *directory_path(struct arena *a)
{
        const char *runtime = getenv("XDG_RUNTIME_DIR");
        if (runtime && runtime[0] == '/')
                return arena_printf(a, "%s/farhand", runtime);
        return arena_printf(a, "/tmp/farhand-%u", (unsigned)geteuid());
}

int background_directory(struct arena *a, const char *name, struct err *err)
{
        const char *parent = directory_path(a);
        _close_ int fd = open_directory(parent, err);
        return fd < 0 ? fd : open_directory(arena_printf(a, "%s/%s", parent, name), err);
}

/* ---- the socket ---- */

/* Connects once to the socket. Returns 0 when a server listens there, or -ENOENT when none does. */
static int try_socket(int directory, const char *path, struct err *err)
{
        struct stat st;
        if (fstatat(directory, "socket", &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? -ENOENT : err_set(err, 0, -errno, "%s: %s", path, errno_text(errno));
        if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
                return err_set(err, 0, -EPERM, "%s: %s", path,
                               S_ISSOCK(st.st_mode) ? "the socket belongs to another user"
                                                    : "it is no socket");
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        if (strlen(path) >= sizeof(address.sun_path))
                return err_set(err, 0, -ENAMETOOLONG, "%s: the path is too long for a socket", path);
        memcpy(address.sun_path, path, strlen(path) + 1);
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return err_set(err, 0, -errno, "socket: %s", errno_text(errno));
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
                return 0;
        /* Only ECONNREFUSED means that the server of the socket is dead; a full backlog (EAGAIN) means that it lives. */
        if (errno == ECONNREFUSED || errno == ENOENT)
                return -ENOENT;
        return errno == EAGAIN ? 0 : err_set(err, 0, -errno, "%s: %s", path, errno_text(errno));
}

/* ---- starting ---- */

/* The servers that this process has started and not reaped yet. Usually there is one at most: the next is started when it has ended. */
static _Atomic pid_t started[STARTED_MAX];

void background_reap(void)
{
        for (size_t i = 0; i < STARTED_MAX; i++) {
                /* Another thread must not ask for the same pid: it could be that of another process by then. */
                pid_t none = 0, pid = atomic_exchange(&started[i], 0);
                if (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0)
                        (void)atomic_compare_exchange_strong(&started[i], &none, pid);
        }
}

static void note_started(pid_t pid)
{
        for (size_t i = 0; i < STARTED_MAX; i++) {
                pid_t none = 0;
                if (atomic_compare_exchange_strong(&started[i], &none, pid))
                        return;
        }
}

/* Waits until the server has printed its URL. */
static int await_url(int out, struct err *err)
{
        char line[URL_BYTES];
        if (poll(&(struct pollfd){ .fd = out, .events = POLLIN }, 1, START_MS) <= 0)
                return err_set(err, 0, -ETIMEDOUT, "the background server did not start in %d seconds",
                               START_MS / 1000);
        ssize_t n = read(out, line, sizeof(line));
        return n > 0 ? 0 : err_set(err, 0, -EIO, "the background server ended at once; its log says why");
}

static int spawn_server(const char *url, const char *log, struct err *err)
{
        char self[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        if (n < 0)
                return err_set(err, 0, -errno, "/proc/self/exe: %s", errno_text(errno));
        self[n] = '\0';
        const char *argv[] = { self,         "serve",           "--listen",   url, "--exit-when-idle",
                               IDLE_SECONDS, "--keep-finished", KEEP_SECONDS, NULL };
        int out[2];
        if (pipe2(out, O_CLOEXEC) < 0)
                return err_set(err, 0, -errno, "pipe: %s", errno_text(errno));
        _close_ int from = out[0];
        _close_ int to = out[1];
        posix_spawnattr_t attributes;
        posix_spawn_file_actions_t actions;
        sigset_t none, all;
        sigemptyset(&none);
        sigfillset(&all);
        int r = posix_spawnattr_init(&attributes);
        r = r ? r : posix_spawn_file_actions_init(&actions);
        if (r)
                return err_set(err, 0, -r, "cannot start the background server: %s", errno_text(r));
        r = posix_spawnattr_setflags(&attributes,
                                     POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        r = r ? r : posix_spawnattr_setsigmask(&attributes, &none);
        r = r ? r : posix_spawnattr_setsigdefault(&attributes, &all);
        r = r ? r : posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        r = r ? r : posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
        r = r ? r
              : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log,
                                                 O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
        r = r ? r : posix_spawn_file_actions_addchdir_np(&actions, "/");
        pid_t pid;
        r = r ? r : posix_spawn(&pid, self, &actions, &attributes, (char *const *)argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)posix_spawnattr_destroy(&attributes);
        if (r)
                return err_set(err, 0, -r, "cannot start the background server: %s", errno_text(r));
        background_reap();
        note_started(pid);
        to = fd_close(to);
        return await_url(from, err);
}

const char *background_url(struct arena *a, bool may_start, struct err *err)
{
        const char *directory = directory_path(a);
        const char *path = arena_printf(a, "%s/socket", directory), *url = arena_printf(a, "unix:%s", path);
        _close_ int fd = open_directory(directory, err);
        if (fd < 0)
                return NULL;
        int r = try_socket(fd, path, err);
        if (r == 0)
                return url;
        if (r == -ENOENT && !may_start)
                (void)err_set(err, 0, -ENOENT,
                              "there is no background server: nothing was started with --detach");
        if (r != -ENOENT || !may_start)
                return NULL;
        _close_ int lock = openat(fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (lock < 0 || flock(lock, LOCK_EX) < 0) {
                (void)err_set(err, 0, -errno, "%s/lock: %s", directory, errno_text(errno));
                return NULL;
        }
        r = try_socket(fd, path, err); /* another command may have started the server meanwhile */
        if (r == -ENOENT)
                r = spawn_server(url, arena_printf(a, "%s/log", directory), err);
        return r == 0 ? url : NULL;
}

/* ---- a server that ends ---- */

static bool is_end_of_server(int code)
{
        return code == -ECONNRESET || code == -EPIPE || code == -ECONNREFUSED || code == -ENOENT;
}

void background_retry_begin(struct background_retry *retry)
{
        *retry = (struct background_retry){ clock_mono_ms() + BACKGROUND_DYING_MS, RETRY_FIRST_MS };
}

bool background_may_retry(struct background_retry *retry, int code)
{
        if (!is_end_of_server(code) || clock_mono_ms() >= retry->end_ms)
                return false;
        (void)poll(NULL, 0, (int)retry->wait_ms);
        retry->wait_ms = MIN(2 * retry->wait_ms, (unsigned)RETRY_LAST_MS);
        return true;
}

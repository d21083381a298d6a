/* contender: starts and stops a server under measurement, and the directories of the benchmark. */
#include "contender.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "samples.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 20000
#define URL_MAX 128

/* --- interrupts --------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_signal(UNUSED int signo)
{
        interrupted = 1;
}

bool is_interrupted(void)
{
        return interrupted != 0;
}

void interrupts_catch(void)
{
        struct sigaction sa = { .sa_handler = on_signal }; /* no SA_RESTART: waits must end */
        sigaction(SIGINT, &sa, NULL);
        sigaction(SIGTERM, &sa, NULL);
        signal(SIGPIPE, SIG_IGN);
}

/* --- the directory ------------------------------------------------------------------------------------------------ */

char *dir_make(const char *parent, struct err *err)
{
        _free_ char *dir = mem_printf("%s/farhand-bench.XXXXXX", parent);
        if (!mkdtemp(dir)) {
                err_set(err, 0, -errno, "%s: %s", dir, errno_text(errno));
                return NULL;
        }
        return TAKE(dir);
}

static int remove_one(const char *path, UNUSED const struct stat *st, UNUSED int kind, UNUSED struct FTW *at)
{
        (void)remove(path); /* a failure shows when the directory cannot be removed */
        return 0;
}

void dir_remove(const char *dir)
{
        if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 || access(dir, F_OK) == 0)
                fprintf(stderr, "bench: %s could not be removed\n", dir);
}

/* --- servers ------------------------------------------------------------------------------------------------------ */

char *beside_bench(const char *name)
{
        char self[4096];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
        return slash ? mem_printf("%.*s/%s", (int)(slash - self), self, name) : mem_printf("build/%s", name);
}

void contender_init(struct contender *c, enum who who, const char *program, const char *home)
{
        *c = (struct contender){ .who = who, .program = program, .home = home, .stdout_fd = -1 };
}

static char *stderr_path(const struct contender *c)
{
        return mem_printf("%s/%s.stderr", c->home, c->who == WHO_OURS ? "farhand" : "reference");
}

static NORETURN void run(const struct contender *c, pid_t bench, int out, int err, int null)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != bench || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
                _exit(126);
        signal(SIGPIPE, SIG_DFL);
        const char *command = c->who == WHO_OURS ? "serve" : "exec-server";
        if (c->who == WHO_REFERENCE) {
                setenv("CODEX_HOME", c->home, 1);
                setenv("HOME", c->home, 1);
        }
        execl(c->program, c->program, command, "--listen", "ws://127.0.0.1:0", (char *)NULL);
        _exit(127);
}

/* Waits for the first line of the output of a server, which is its URL. */
static int read_url(int fd, char ret[URL_MAX])
{
        uint64_t deadline = now_ns() + START_MS * UINT64_C(1000000);
        size_t n = 0;
        while (n == 0 || ret[n - 1] != '\n') {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                uint64_t now = now_ns();
                int r = now < deadline ? poll(&p, 1, (int)((deadline - now) / 1000000) + 1) : 0;
                if (r < 0 && errno == EINTR && !is_interrupted())
                        continue;
                if (r <= 0)
                        return r < 0 ? -errno : -ETIMEDOUT;
                ssize_t got = read(fd, ret + n, URL_MAX - 1 - n);
                if (got <= 0)
                        return got < 0 ? -errno : -EPIPE;
                n += (size_t)got;
                if (n == URL_MAX - 1)
                        return -EMSGSIZE;
        }
        ret[n - 1] = 0;
        return 0;
}

static int parse_port(const char *url, uint16_t *ret)
{
        const char *colon = strrchr(url, ':');
        uint64_t port;
        if (!colon || slice_to_u64(slice_from_str(colon + 1), UINT16_MAX, &port) < 0)
                return -EPROTO;
        *ret = (uint16_t)port;
        return 0;
}

/* Makes an error with the text that the server printed before it ended. */
static int start_failed(struct contender *c, int code, struct err *err)
{
        contender_stop(c);
        if (code == -EINTR)
                return err_set(err, 0, code, "interrupted");
        _free_ char *path = stderr_path(c);
        _buf_ struct buf text = BUF_INIT(4000);
        if (fd_read_file(path, 4000, &text) < 0)
                buf_truncate(&text, 0); /* the file cannot be read: report no text */
        return err_set(err, 0, code, "%s did not start (%s): %.*s", c->program, errno_name(code),
                       SLICE(slice_trim(buf_slice(&text))));
}

int contender_start(struct contender *c, struct err *err)
{
        _free_ char *path = stderr_path(c);
        _close_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        _close_ int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int ends[2];
        if (null < 0 || log < 0 || pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, 0, -errno, "%s: %s", path, errno_text(errno));

        pid_t self = getpid();
        pid_t pid = fork();
        if (pid == 0)
                run(c, self, ends[1], log, null);
        int r = pid < 0 ? -errno : 0;
        fd_close(ends[1]);
        c->stdout_fd = ends[0];
        c->pid = MAX(pid, 0);

        char url[URL_MAX];
        if (r == 0)
                r = read_url(c->stdout_fd, url);
        if (r == 0)
                r = parse_port(url, &c->port);
        return r < 0 ? start_failed(c, r, err) : 0;
}

void contender_stop(struct contender *c)
{
        c->stdout_fd = fd_close(c->stdout_fd);
        if (c->pid <= 0)
                return;
        kill(c->pid, SIGKILL);
        while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
                continue;
        c->pid = 0;
}

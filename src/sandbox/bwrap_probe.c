/* bwrap_probe: runs bwrap and listens to what it says. See bwrap.h.
 *
 * The server reaps all children that it has, at any time: so these are known by a descriptor, and by their words, never by
 * a number or an exit code.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "sandbox/bwrap_internal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX (64 * 1024)
#define STACK_BYTES (64 * 1024)
#define ERRNO_MAX 133

struct run {
        const char *program;
        const char *const *argv;
        int out, init, arguments; /* the last two: -1 for none */
        int os_errno;             /* of execve and before */
};

/* ---- the child: raw, in our memory ---- */

static int lift(int fd)
{
        return fd < 0 ? fd : (int)sys_call3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, BWRAP_FD_EMPTY);
}

static NO_ASAN void run_child(void *arg)
{
        struct run *run = arg;
        const char *const env[] = { NULL };
        int null = lift(sys_open("/dev/null", O_RDWR)), out = lift(run->out);
        const int from[] = { null, out, out, -1, lift(run->init), lift(run->arguments) };
        long r = MIN(null, out);
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)sys_call0(SYS_setsid);
        for (int i = 0; r >= 0 && i < (int)ARRAY_LEN(from); i++)
                if (from[i] >= 0)
                        r = sys_call3(SYS_dup3, from[i], i, 0);
        if (r >= 0) {
                (void)sys_call3(SYS_close_range, BWRAP_FD_EMPTY, ~0U, CLOSE_RANGE_CLOEXEC);
                (void)sys_sigmask(0);
                r = sys_call3(SYS_execve, run->program, run->argv, env);
        }
        run->os_errno = (int)-r;
        sys_exit(127);
}

/* ---- here ---- */

/* All that it says until it has closed its output, or the time is over. */
static void listen_to(int fd, struct buf *ret)
{
        uint64_t end = clock_mono_ms() + BWRAP_PROBE_MS;
        for (;;) {
                uint64_t now = clock_mono_ms();
                struct pollfd p = { .fd = fd, .events = POLLIN };
                char *room;
                if (now >= end || buf_reserve(ret, 4096, &room) < 0)
                        return;
                int ready = poll(&p, 1, (int)(end - now));
                if (ready < 0 && errno == EINTR)
                        continue;
                ssize_t n = ready > 0 ? read(fd, room, 4096) : 0;
                if (n <= 0)
                        return;
                buf_commit(ret, (size_t)n);
        }
}

static int run_clone(struct run *run, char *stack, int *ret_pidfd)
{
        sigset_t all, before;
        sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        long pid = sys_clone_onto(CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, stack + STACK_BYTES,
                                  ret_pidfd, NULL, run_child, run);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return (int)MIN(pid, 0L);
}

static int run(struct run *run, struct buf *ret)
{
        _close_ int from = -1, to = -1, pidfd = -1;
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        from = ends[0];
        to = ends[1];
        char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED)
                return -ENOMEM;
        run->out = to;
        int r = run_clone(run, stack, &pidfd);
        (void)munmap(stack, STACK_BYTES);
        to = fd_close(to);
        if (r < 0)
                return r;
        listen_to(from, ret);
        (void)sys_pidfd_signal(pidfd, SIGKILL);
        siginfo_t info;
        (void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED); /* unless the server has done so */
        return -run->os_errno;
}

int bwrap_check_options(const struct bwrap *b, struct err *err)
{
        static const char *const needed[] = {
                "--args",     "--as-pid-1",   "--perms",        "--size",
                "--cap-drop", "--remount-ro", "--ro-bind-data", "--ro-bind-try"
        };
        const char *const argv[] = { "bwrap", "--help", NULL };
        struct run help = { .program = b->program, .argv = argv, .init = -1, .arguments = -1 };
        _buf_ struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);
        int r = run(&help, &out);
        if (r < 0)
                return bwrap_refuse(err, r, "bwrap cannot be run", "look whether this user may execute it");
        for (size_t i = 0; i < ARRAY_LEN(needed); i++)
                if (!memmem(out.p, out.n, needed[i], strlen(needed[i])))
                        return bwrap_refuse(err, -ENOTSUP, "this bwrap is too old",
                                            "install bubblewrap 0.8 or later");
        return 0;
}

int bwrap_errno(const char *words)
{
        struct slice text = slice_trim(slice_from_str(words));
        for (int e = 1; e <= ERRNO_MAX; e++) {
                const char *name = strerrordesc_np(e);
                size_t n = name ? strlen(name) : 0;
                if (n > 0 && text.n > n + 2 && memcmp(text.p + text.n - n, name, n) == 0 &&
                    text.p[text.n - n - 1] == ' ')
                        return e;
        }
        return 0;
}

int bwrap_test(const struct bwrap *b, struct err *err)
{
        const struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ };
        const char *const argv[] = { "bwrap",           "--args",          "5", "--remount-ro", "/dev", "--",
                                     "/proc/self/fd/4", BWRAP_TEST_OPTION, NULL };
        _bwrap_arguments_ struct bwrap_arguments arguments = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);
        int r = bwrap_arguments_make(&plan, false, &arguments, err);
        if (r < 0)
                return r;
        _close_ int text = memfd_create("farhand-bwrap", MFD_CLOEXEC),
                    init = open(b->init, O_PATH | O_CLOEXEC);
        struct run test = { .program = b->program, .argv = argv, .init = init, .arguments = text };
        if (text < 0 || init < 0)
                r = -errno;
        if (r == 0)
                r = fd_write_all(text, buf_slice(&arguments.text));
        if (r == 0 && lseek(text, 0, SEEK_SET) < 0)
                r = -errno;
        if (r == 0)
                r = run(&test, &out);
        if (r < 0)
                return bwrap_refuse(err, r, "bwrap cannot be run", "look whether this user may execute it");
        if (memmem(out.p, out.n, BWRAP_TEST_WORDS, strlen(BWRAP_TEST_WORDS)))
                return 0;
        int os_errno = bwrap_errno(out.p);
        return bwrap_refuse(err, os_errno ? -os_errno : -EPROTO, out.n > 0 ? out.p : "bwrap said nothing",
                            "this bwrap may not make user namespaces, or not mount in them: where the "
                            "distribution has an AppArmor profile for it, use the distribution's bwrap");
}

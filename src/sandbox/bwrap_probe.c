/* bwrap_probe: runs bwrap to test its options and whether it can build a view.
 *
 * The server may reap any of its children at any time. So these children are known by a pidfd and judged by their output,
 * never by a process number or an exit code.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/sys.h"
#include "sandbox/bwrap_internal.h"
#include "sandbox/finish.h"
#include "sandbox/layers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX (64 * 1024)
#define STACK_BYTES (64 * 1024)
#define ERRNO_MAX 133

struct run {
        int program;
        const char *const *argv;
        int out, socket, init, arguments; /* the last three: -1 for none */
        int os_errno;                     /* the error of execve or of a step before it; 0: none */
};

/* An attempt to join the namespaces that bwrap has built. */
struct joining {
        pid_t pid; /* the pid of farhand-init */
        struct verify_spaces outside;
        int result;
};

/* ---- the child: raw system calls, in the memory of the server ---- */

/* Duplicates a descriptor to a number above those that run_child assigns, so that none of its calls of dup3 closes it. */
static int lift(int fd)
{
        return fd < 0 ? fd : (int)sys_call3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, BWRAP_FD_EMPTY);
}

static NO_ASAN void run_child(void *arg)
{
        struct run *run = arg;
        const char *const env[] = { NULL };
        int null = lift(sys_open("/dev/null", O_RDWR)), out = lift(run->out), program = lift(run->program);
        const int from[] = { null, out, out, lift(run->socket), lift(run->init), lift(run->arguments) };
        long r = MIN(MIN(null, out), program);
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)sys_call0(SYS_setsid);
        for (int i = 0; r >= 0 && i < (int)ARRAY_LEN(from); i++)
                if (from[i] >= 0)
                        r = sys_call3(SYS_dup3, from[i], i, 0);
        if (r >= 0) {
                (void)sys_call3(SYS_close_range, BWRAP_FD_EMPTY, ~0U, CLOSE_RANGE_CLOEXEC);
                (void)sys_sigmask(0);
                r = sys_exec_fd(program, run->argv, env);
        }
        run->os_errno = (int)-r;
        sys_exit(127);
}

static NO_ASAN void join_child(void *arg)
{
        struct joining *j = arg;
        const struct user_limits none = { 0, 0 };
        struct finish f;
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        j->result = finish_open(j->pid, &j->outside, &f);
        if (j->result == 0)
                j->result = finish_view(&f, none, true, true);
        sys_exit(0);
}

/* ---- the server: starts children and reads what they write ---- */

/* Starts a child that shares the memory of the server until it calls execve or ends. */
static int child_clone(void (*fn)(void *), void *arg, int *ret_pidfd)
{
        sigset_t all, before;
        char *stack = sys_stack_map(STACK_BYTES);
        if (!stack)
                return -ENOMEM;
        sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        long pid = sys_clone_onto(CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, stack + STACK_BYTES,
                                  ret_pidfd, NULL, fn, arg);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        sys_stack_unmap(stack, STACK_BYTES);
        return (int)MIN(pid, 0L);
}

static void child_end(int pidfd)
{
        siginfo_t info;
        (void)sys_pidfd_signal(pidfd, SIGKILL);
        (void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED); /* the server may have reaped the child already */
}

static int join_try(pid_t pid)
{
        struct joining j = { .pid = pid, .result = -ECANCELED };
        _close_ int pidfd = -1;
        if (layer_is_off(LAYER_FINISH))
                return -EPERM;
        int r = verify_spaces_get(&j.outside);
        if (r == 0)
                r = child_clone(join_child, &j, &pidfd);
        if (r < 0)
                return r;
        child_end(pidfd);
        return j.result;
}

/* Receives a byte and returns the pid of its sender, which the kernel adds; 0 when nothing was received. */
static pid_t hear(int socket)
{
        char byte;
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
        struct iovec part = { &byte, 1 };
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1)
                return 0;
        const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
                return 0;
        return ((const struct ucred *)(const void *)CMSG_DATA(c))->pid;
}

/* Reads the output until it is closed or the time is over. When farhand-init reports on the socket (-1: there is none), its
 * namespaces are joined while it waits; *ret_joined is the result. */
static void listen_to(int fd, int socket, struct buf *ret, int *ret_joined)
{
        uint64_t end = clock_mono_ms() + BWRAP_PROBE_MS;
        for (;;) {
                uint64_t now = clock_mono_ms();
                struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = socket, .events = POLLIN } };
                char *room;
                if (now >= end || buf_reserve(ret, 4096, &room) < 0)
                        return;
                int ready = poll(p, ARRAY_LEN(p), (int)(end - now));
                if (ready < 0 && errno == EINTR)
                        continue;
                if (ready > 0 && p[1].revents) {
                        pid_t pid = hear(socket);
                        *ret_joined = pid > 0 ? join_try(pid) : -EPROTO;
                        (void)shutdown(socket, SHUT_RDWR);
                        socket = -1;
                        continue;
                }
                ssize_t n = ready > 0 ? read(fd, room, 4096) : 0;
                if (n <= 0)
                        return;
                buf_commit(ret, (size_t)n);
        }
}

/* Runs bwrap and reads its output. `ret_joined`, if not NULL, gets the result of joining the namespaces that bwrap has built. */
static int run(struct run *run, struct buf *ret, int *ret_joined)
{
        _close_ int from = -1, to = -1, pidfd = -1, ours = -1, theirs = -1;
        const int yes = 1;
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
                return -errno;
        from = ends[0];
        to = ends[1];
        if (ret_joined) {
                *ret_joined = -EPROTO;
                if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                        return -errno;
                ours = ends[0];
                theirs = ends[1];
                (void)setsockopt(ours, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
        }
        run->out = to;
        run->socket = theirs;
        int r = child_clone(run_child, run, &pidfd);
        to = fd_close(to);
        theirs = fd_close(theirs);
        if (r < 0)
                return r;
        listen_to(from, ours, ret, ret_joined);
        child_end(pidfd);
        return -run->os_errno;
}

int bwrap_check_options(const struct bwrap *b, struct err *err)
{
        static const char *const needed[] = {
                "--args",     "--as-pid-1",   "--perms",        "--size",
                "--cap-drop", "--remount-ro", "--ro-bind-data", "--ro-bind-try"
        };
        const char *const argv[] = { "bwrap", "--help", NULL };
        int program = helper_fd(&b->program_file);
        struct run help = { .program = program, .argv = argv, .init = -1, .arguments = -1 };
        _buf_ struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);
        int r = program < 0 ? program : run(&help, &out, NULL);
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

/* An error that means that the system forbids joining is recorded, and is no failure. Every other error is a failure. */
static int judge_join(struct bwrap *b, int r, struct err *err)
{
        if (r == 0 || r == -EPERM || r == -EACCES || r == -ENOSYS) {
                b->finish_errno = -r;
                return 0;
        }
        return bwrap_refuse(err, r, "what bwrap has built could not be joined",
                            "look which program bwrap is on the server's PATH, and whether /proc is mounted");
}

static int test_once(struct bwrap *b, struct err *err)
{
        int joined;
        const struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ };
        const char *const argv[] = { "bwrap",           "--args",          "5", "--remount-ro", "/dev", "--",
                                     "/proc/self/fd/4", BWRAP_TEST_OPTION, NULL };
        _bwrap_arguments_ struct bwrap_arguments arguments = BWRAP_ARGUMENTS_INIT;
        _buf_ struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);
        int r = bwrap_arguments_make(&plan, false, &arguments, err);
        if (r < 0)
                return r;
        int program = helper_fd(&b->program_file), init = helper_fd(&b->init_file);
        _close_ int text = memfd_create("farhand-bwrap", MFD_CLOEXEC);
        struct run test = { .program = program, .argv = argv, .init = init, .arguments = text };
        if (text < 0)
                r = -errno;
        if (r == 0)
                r = MIN(MIN(program, init), 0);
        if (r == 0)
                r = fd_write_all(text, buf_slice(&arguments.text));
        if (r == 0 && lseek(text, 0, SEEK_SET) < 0)
                r = -errno;
        if (r == 0)
                r = run(&test, &out, &joined);
        if (r < 0)
                return bwrap_refuse(err, r, "bwrap cannot be run", "look whether this user may execute it");
        if (memmem(out.p, out.n, BWRAP_TEST_WORDS, strlen(BWRAP_TEST_WORDS)))
                return judge_join(b, joined, err);
        int os_errno = bwrap_errno(out.p);
        return bwrap_refuse(err, os_errno ? -os_errno : -EPROTO, out.n > 0 ? out.p : "bwrap said nothing",
                            "this bwrap may not make user namespaces, or not mount in them: where the "
                            "distribution has an AppArmor profile for it, use the distribution's bwrap");
}

/* A system that executes only installed files may refuse the copy of farhand-init; then the installed file is tried. */
int bwrap_test(struct bwrap *b, struct err *err)
{
        struct err first = ERR_INIT;
        int r = test_once(b, &first);
        if (r == 0)
                return 0;
        if (b->init_file.copy < 0) {
                *err = first;
                return r;
        }
        helper_drop_copy(&b->init_file);
        return test_once(b, err);
}

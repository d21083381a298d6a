/* child: the command's process sets itself up and executes the program (child.h). */
#include "keeper/child.h"

#include "base/sys.h"
#include "sandbox/exec_notify.h"
#include "sandbox/exec_pair.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define CPU_SECONDS_MAX 1000000000 /* 31 years; the kernel counts nanoseconds and would overflow */

NO_ASAN void child_fail(struct keeper *k, enum spawn_step step, long r)
{
        k->failed_op = ENTER_NO_OP;
        k->failed_errno = (int32_t)-r;
        k->failed_step = step;
        sys_exit(127);
}

NO_ASAN void child_enter_leaf(struct keeper *k)
{
        int r = cgroup_leaf_enter(k->leaf_fd);
        if (r < 0 && k->order.needs_leaf)
                child_fail(k, SPAWN_STEP_LIMITS, r);
}

void child_note(struct keeper *k, const struct enter_failure *why)
{
        k->failed_op = why->op;
        k->failed_errno = why->os_errno;
        k->failed_step = SPAWN_STEP_SANDBOX + why->step;
}

struct enter_stdio child_stdio(const struct keeper_order *o)
{
        return (struct enter_stdio){ { o->stdio[0], o->stdio[1], o->stdio[2] } };
}

/* Follows the rules of execvp: a candidate that does not exist, or may not be executed, is skipped. `cookie` is NULL when no filter
 * has to let the program pass. */
static NORETURN NO_ASAN void child_exec(struct keeper *k, const struct exec_cookie *cookie)
{
        const struct keeper_order *o = &k->order;
        long r = -ENOENT;
        bool denied = false;
        for (char *const *program = o->candidates; *program; program++) {
                r = cookie ? exec_notify_exec(*program, o->argv, o->env, cookie)
                           : sys_call3(SYS_execve, *program, o->argv, o->env);
                if (r == -EACCES)
                        denied = true;
                else if (r != -ENOENT && r != -ENOTDIR)
                        child_fail(k, SPAWN_STEP_EXEC, r);
        }
        child_fail(k, SPAWN_STEP_EXEC, denied ? -EACCES : r);
}

/* Sets a limit. A stricter limit that is already set stays: it cannot be raised, and it satisfies the request. */
static long limit_set(int resource, uint64_t soft, uint64_t hard)
{
        struct rlimit limit;
        long r = sys_call4(SYS_prlimit64, 0, resource, NULL, &limit);
        if (r < 0)
                return r;
        limit = (struct rlimit){ .rlim_cur = MIN(soft, limit.rlim_max),
                                 .rlim_max = MIN(hard, limit.rlim_max) };
        return sys_call4(SYS_prlimit64, 0, resource, &limit, NULL);
}

static long child_limit(const struct keeper_order *o)
{
        const struct spawn_limits *l = &o->limits;
        const struct rlimit files = { .rlim_cur = l->open_files, .rlim_max = l->open_files };
        uint64_t cpu = MIN(l->cpu_seconds, (uint64_t)CPU_SECONDS_MAX);
        long r = 0;
        if (l->open_files > 0 && o->image && l->open_files > o->nofile.rlim_max)
                r = -EPERM; /* the error that the kernel gives a process that may not raise a limit */
        else if (l->open_files > 0)
                r = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, &files, NULL);
        else if (o->has_nofile)
                r = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, &o->nofile, NULL);
        if (r >= 0 && cpu > 0)
                r = limit_set(RLIMIT_CPU, cpu, cpu + 1); /* SIGXCPU comes a second before SIGKILL */
        if (r >= 0 && l->file_bytes > 0)
                r = limit_set(RLIMIT_FSIZE, l->file_bytes, l->file_bytes);
        /* This limit is set last, because this process still has the address space of the spawner, which may be larger. */
        if (r >= 0 && l->memory_bytes > 0)
                r = limit_set(RLIMIT_AS, l->memory_bytes, l->memory_bytes);
        return r;
}

/* Sends a byte, so that the keeper learns the pid of the child: the kernel tells which process has sent it. The child cannot send its
 * pid: it knows only its pid in the sandbox. The listener goes with it, if there is one. */
static NO_ASAN long child_tell(int socket, int listener)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
        char byte = 0;
        struct iovec part = { &byte, 1 };
        struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
        if (listener >= 0) {
                msg.msg_control = control;
                msg.msg_controllen = sizeof(control);
                struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
                *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                       .cmsg_level = SOL_SOCKET,
                                       .cmsg_type = SCM_RIGHTS };
                *(int *)(void *)CMSG_DATA(c) = listener;
        }
        unsigned tries = 0;
        long r;
        do
                r = sys_call3(SYS_sendmsg, socket, &msg, MSG_NOSIGNAL);
        /* Tries again also while commands of this user keep too many descriptors in flight (keeper/lend.h). */
        while (sys_again(r == -EAGAIN || r == -ETOOMANYREFS ? -ENOBUFS : r, &tries));
        return r;
}

/* Returns what the broker gets, by which it hears of the programs that are started. */
static NO_ASAN int child_intercept(const struct keeper_order *o, struct exec_cookie *cookie)
{
        if (o->asking == EXEC_ASKED_BY_SHELL)
                return exec_pair_open();
        int r = exec_cookie_make(cookie);
        return r < 0 ? r : exec_notify_install(cookie);
}

NO_ASAN void child_run(void *child_start)
{
        const struct child_start *start = child_start;
        struct keeper *k = start->k;
        const struct keeper_order *o = &k->order;

        /* The spawner ends what a killed keeper leaves. This covers the case that both are killed at once. */
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != start->parent)
                sys_exit(127);

        if (start->enters_leaf)
                child_enter_leaf(k);

        long r = sys_call0(SYS_setsid);
        if (r == -EPERM)
                r = sys_call2(SYS_setpgid, 0, 0);
        if (r < 0)
                child_fail(k, SPAWN_STEP_SESSION, r);

        for (int i = 0; i < 3; i++) {
                r = sys_call3(SYS_dup3, start->io.fds[i], i, 0);
                if (r < 0)
                        child_fail(k, SPAWN_STEP_STDIO, r);
        }
        /* This also puts the process group of the child into the foreground. */
        if (o->is_tty && (r = sys_call3(SYS_ioctl, 0, TIOCSCTTY, 0)) < 0)
                child_fail(k, SPAWN_STEP_PTY, r);

        /* Every descriptor is opened close-on-exec; this is a second protection. It does not close them at once, because the pipe
         * of a forked keeper must stay open until execve. Kernels before 5.11 lack the flag. */
        (void)sys_call3(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);

        /* This comes before the limits, because the listener takes a descriptor. */
        struct exec_cookie cookie;
        bool has_filter = o->is_intercepted && o->asking == EXEC_ASKED_BY_KERNEL;
        int listener = o->is_intercepted ? child_intercept(o, &cookie) : -1;
        if (o->is_intercepted && listener < 0)
                child_fail(k, SPAWN_STEP_INTERCEPT, listener);

        r = child_limit(o);
        if (r < 0)
                child_fail(k, SPAWN_STEP_LIMITS, r);

        struct enter_failure why;
        if ((start->image && enter_confine(start->image, &why) < 0) ||
            enter_landlock(start->ruleset, &why) < 0) {
                child_note(k, &why);
                sys_exit(127);
        }
        while (start->may_run && !__atomic_load_n(start->may_run, __ATOMIC_ACQUIRE))
                (void)sys_call4(SYS_futex, start->may_run, FUTEX_WAIT, 0, NULL);

        /* No path is resolved before this point: until the sandbox has been checked, the root of the machine is mounted over the
         * root of the sandbox, and `..` above the root, also inside of a symbolic link, leads there. */
        r = sys_call1(SYS_chdir, o->cwd);
        if (r < 0)
                child_fail(k, SPAWN_STEP_CWD, r);

        if (start->socket >= 0 && (r = child_tell(start->socket, listener)) < 0)
                child_fail(k, listener >= 0 ? SPAWN_STEP_INTERCEPT : SPAWN_STEP_FORK, r);

        /* All signals have had their default disposition since the spawner began. */
        (void)sys_sigmask(0);
        child_exec(k, has_filter ? &cookie : NULL);
}

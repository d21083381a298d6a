/* escalate_child: the child that executes a program outside of the sandbox. It is a fork of a process with more threads, so it makes raw
 * system calls only: a lock of libc may be held by a thread that does not exist here. */
#include "intercept/escalate_internal.h"

#include "keeper/cgroup.h"

#include <sched.h>

/* The kernel's struct sigaction. */
struct kernel_sigaction {
        uintptr_t handler;
        uint64_t flags;
        uintptr_t restorer;
        uint64_t mask;
};

static NORETURN void fail(const struct escalate_order *o, long r)
{
        int32_t error = (int32_t)-r;
        (void)sys_write(o->report, &error, sizeof(error));
        sys_exit(127);
}

/* Moves a descriptor out of the way of the numbers that the program gets. */
static int moved(const struct escalate_order *o, int fd)
{
        if (fd < 0)
                return fd;
        long r = sys_call3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, o->first_free);
        if (r < 0)
                fail(o, r);
        return (int)r;
}

static void descriptors_place(struct escalate_order *o)
{
        bool is_open[3] = { false };
        o->report = moved(o, o->report);
        o->cwd = moved(o, o->cwd);
        o->leaf = moved(o, o->leaf);
        for (size_t i = 0; i < o->count; i++)
                o->descriptors[i].from = moved(o, o->descriptors[i].from);
        o->program = moved(o, o->program);
        (void)sys_call3(SYS_close_range, 3, ~0U,
                        CLOSE_RANGE_CLOEXEC); /* a second protection: all are close-on-exec already */
        for (size_t i = 0; i < o->count; i++) {
                int to = o->descriptors[i].to;
                long r = sys_call3(SYS_dup3, o->descriptors[i].from, to, 0);
                if (r < 0)
                        fail(o, r);
                if (to < 3)
                        is_open[to] = true;
        }
        for (int i = 0; i < 3; i++)
                if (!is_open[i])
                        sys_close(i);
}

static void signals_set(const struct escalate_order *o)
{
        const struct kernel_sigaction ignore = { .handler = 1 };
        for (int signo = 1; signo <= 64; signo++)
                if (o->ignored & SYS_SIGNAL_BIT(signo))
                        (void)sys_call4(SYS_rt_sigaction, signo, &ignore, NULL, 8);
}

/* Sets the caller's limits and scheduling. A value that a process without privileges may not raise stays as the keeper has it. */
static void limits_set(const struct escalate_order *o)
{
        if (o->schedule.size && sys_call3(SYS_sched_setattr, 0, &o->schedule, 0) < 0)
                (void)sys_call3(SYS_setpriority, 0, 0, o->schedule.nice);
        for (int i = 0; i < ESCALATE_LIMITS; i++)
                if (o->has_limit >> i & 1)
                        (void)sys_call4(SYS_prlimit64, 0, i, &o->limits[i], NULL);
}

void escalate_child(struct escalate_order *o)
{
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != o->parent)
                sys_exit(127);
        long r = sys_call0(SYS_setsid);
        if (r < 0)
                fail(o, r);
        descriptors_place(o);
        if (o->leaf >= 0 && (r = cgroup_leaf_enter(o->leaf)) < 0)
                fail(o, r);
        if ((r = sys_call1(SYS_fchdir, o->cwd)) < 0)
                fail(o, r);
        (void)sys_call1(SYS_umask, o->umask);
        limits_set(o);
        signals_set(o);
        (void)sys_sigmask(o->blocked);

        if (o->program >= 0) {
                r = sys6(SYS_execveat, o->program, SYS_ARG(""), SYS_ARG(o->argv), SYS_ARG(o->env),
                         o->flags | AT_EMPTY_PATH, 0);
                fail(o, r);
        }
        r = sys_call3(SYS_execve, o->path, o->argv, o->env);
        if (r == -ENOEXEC)
                r = sys_call3(SYS_execve, "/bin/sh", o->shell_argv, o->env);
        fail(o, r);
}

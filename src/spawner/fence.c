/* fence: makes the user namespace that holds the user namespaces of all sandboxes (fence.h). */
#include "spawner/fence.h"

#include "base/clock.h"
#include "base/sys.h"
#include "sandbox/enter.h"
#include "sandbox/user_limits.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#define STACK_BYTES (16 * 1024)

struct maker {
        pid_t parent; /* the caller of fence_get */
        struct user_limits limits;
        char *tester_stack; /* the top of the stack */
        int ready;          /* a pipe: gets a byte when the namespace exists */
};

static NO_ASAN void tester_run(UNUSED void *arg)
{
        sys_exit(0);
}

/* Tests whether another user namespace can be made inside of the fence: the kernel limits how deep they nest. */
static NO_ASAN bool has_room(const struct maker *m)
{
        long pid = sys_clone_onto(CLONE_VM | CLONE_VFORK | CLONE_NEWUSER | SIGCHLD, m->tester_stack, NULL,
                                  NULL, tester_run, NULL);
        while (pid > 0 && sys_wait4((pid_t)pid, NULL, __WALL, NULL) == -EINTR)
                continue;
        return pid > 0;
}

/* Runs in the process that makes the namespace. Uses raw system calls only, because that process shares the caller's memory. */
static NO_ASAN void maker_run(void *arg)
{
        const struct maker *m = arg;
        const struct image ids = { .needs_user = 1,
                                   .uid = (uint32_t)sys_call0(SYS_geteuid),
                                   .gid = (uint32_t)sys_call0(SYS_getegid) };
        struct enter_failure why;
        if (sys_call1(SYS_unshare, CLONE_NEWUSER) < 0 || enter_ids(&ids, &why) < 0 ||
            user_limits_set(m->limits, true) < 0 || !has_room(m))
                sys_exit(1);
        /* The kernel sends nothing when the parent died before this call. */
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != m->parent)
                sys_exit(1);
        (void)sys_write(m->ready, "", 1);
        for (;;)
                (void)sys_sigtimedwait(0, NULL);
}

static int namespace_open(pid_t pid, int ready)
{
        char path[64], byte;
        long n;
        do
                n = sys_read(ready, &byte, 1);
        while (n == -EINTR);
        if (n != 1)
                return -1;
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        int fd = sys_open(path, O_RDONLY);
        return MAX(fd, -1);
}

static int fence_make(char *stack)
{
        struct maker maker = { .parent = sys_getpid(),
                               .limits = user_limits_of_all(user_limits_read()),
                               .tester_stack = stack + STACK_BYTES / 2 };
        int ends[2];
        if (sys_call2(SYS_pipe2, ends, O_CLOEXEC) < 0)
                return -1;
        maker.ready = ends[1];
        long pid = sys_clone_onto(CLONE_VM | SIGCHLD, stack + STACK_BYTES, NULL, NULL, maker_run, &maker);
        sys_close(ends[1]);
        int fd = pid > 0 ? namespace_open((pid_t)pid, ends[0]) : -1;
        sys_close(ends[0]);
        if (pid <= 0)
                return -1;
        (void)sys_kill((pid_t)pid, SIGKILL);
        while (sys_wait4((pid_t)pid, NULL, __WALL, NULL) == -EINTR)
                continue;
        return fd;
}

int fence_get(struct fence *f)
{
        uint64_t now_ms = clock_mono_ms();
        if (f->fd >= 0 || now_ms < f->again_ms)
                return f->fd;
        char *stack = sys_stack_map(STACK_BYTES);
        if (stack) {
                f->fd = fence_make(stack);
                sys_stack_unmap(stack, STACK_BYTES);
        }
        f->again_ms = now_ms + FENCE_AGAIN_MS;
        return f->fd;
}

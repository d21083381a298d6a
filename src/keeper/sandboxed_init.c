/* sandboxed_init: process 1 of a sandbox once it has its view: makes the command, reports to the keeper, and reaps
 * (sandboxed.h). Also part of farhand-init, which does not share memory with the keeper: every report goes over the socket. */
#include "keeper/sandboxed_internal.h"

#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define COMMAND_STACK_BYTES (32 * 1024)

NO_ASAN long sandboxed_receive(int socket, struct iovec *parts, size_t part_count, int fds[], size_t fd_count)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(SANDBOXED_FDS * sizeof(int))];
        struct msghdr msg = { .msg_iov = parts,
                              .msg_iovlen = part_count,
                              .msg_control = control,
                              .msg_controllen = sizeof(control) };
        unsigned tries = 0;
        long n;
        do
                n = sys_call3(SYS_recvmsg, socket, &msg, MSG_CMSG_CLOEXEC);
        while (sys_again(n, &tries));
        if (n < 0)
                return n;
        const struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(fd_count * sizeof(int)))
                return n == 0 ? -EPIPE
                              : -EMFILE; /* the kernel leaves out descriptors for which there is no free number */
        memcpy(fds, CMSG_DATA(c), fd_count * sizeof(int));
        return n;
}

static void send_to(int socket, const struct sandboxed_message *m)
{
        (void)sys_send(socket, m, sizeof(*m), MSG_NOSIGNAL);
}

static void send_over(const struct keeper *k, int socket)
{
        send_to(socket, &(struct sandboxed_message){ .kind = SANDBOXED_OVER,
                                                     .failed_step = k->failed_step,
                                                     .failed_errno = k->failed_errno,
                                                     .failed_op = k->failed_op });
}

NO_ASAN void sandboxed_init_end(const struct keeper *k, int socket)
{
        send_over(k, socket);
        sys_exit(127);
}

static int status_of(const siginfo_t *info)
{
        if (info->si_code == CLD_EXITED)
                return (info->si_status & 0xff) << 8;
        return info->si_status | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

/* Returns whether the command, which is not reaped yet, is the only process besides the init. Orphans become children of
 * the init, so every process of the sandbox descends from one of its children. */
static bool is_only_child(int children)
{
        char text[32];
        long n = children < 0 ? -1 : sys_call4(SYS_pread64, children, text, sizeof(text), 0);
        long numbers = 0;
        for (long i = 0; i < n; i++)
                numbers += text[i] == ' ';
        return n > 0 && numbers == 1;
}

/* The command is reported before it is reaped: the pid that it has outside of the sandbox must not be used again until
 * the keeper knows of the exit. */
static NORETURN NO_ASAN void reap(int socket, int children, pid_t command)
{
        for (;;) {
                siginfo_t info = { 0 };
                struct sandboxed_message m = { .kind = SANDBOXED_EXITED };
                long r = sys6(SYS_waitid, P_ALL, 0, SYS_ARG(&info), WEXITED | WNOWAIT | __WALL,
                              SYS_ARG(&m.usage), 0);
                if (r == -EINTR)
                        continue;
                if (r < 0)
                        sys_exit(0);
                bool is_command = info.si_pid == command;
                if (is_command) {
                        char known;
                        m.status = status_of(&info);
                        m.is_alone = is_only_child(children);
                        send_to(socket, &m);
                        while (sys_read(socket, &known, 1) == -EINTR)
                                continue;
                        command = 0;
                }
                (void)sys_wait4(info.si_pid, NULL, __WALL, NULL);
                /* Processes that the command left run on. The end of the init, with all namespaces, takes a while, so the keeper
                 * is told now. */
                if (is_command && !m.is_alone) {
                        m.kind = sys_kill(-1, 0) == -ESRCH ? SANDBOXED_ALONE : SANDBOXED_OTHERS;
                        send_to(socket, &m);
                }
        }
}

/* Closes everything but the socket, which becomes 0, and the list of children, which becomes 1: only the command may have its pipes
 * open when the keeper hears of the start. Before, both have numbers above 2. */
static int close_all_but(int socket, int *children)
{
        int fd = (int)sys_call3(SYS_dup3, socket, 0, O_CLOEXEC);
        if (fd < 0)
                return fd;
        if (*children >= 0)
                *children = (int)sys_call3(SYS_dup3, *children, 1, O_CLOEXEC);
        return (int)sys_call3(SYS_close_range, *children >= 0 ? 2 : 1, ~0U, 0);
}

static NORETURN NO_ASAN void fail_at(struct keeper *k, int socket, enum spawn_step step, long r)
{
        sandboxed_fail_at(k, step, r);
        sandboxed_init_end(k, socket);
}

static char *stack_make(void)
{
        char *stack = sys_stack_map(COMMAND_STACK_BYTES);
        return stack ? stack + COMMAND_STACK_BYTES : NULL;
}

NO_ASAN void sandboxed_init_run(struct keeper *k, const struct image *image, struct child_start *child)
{
        struct enter_failure why;
        char *stack = stack_make();
        if (!stack)
                fail_at(k, child->socket, SPAWN_STEP_FORK, -ENOMEM);
        if (enter_confine(image, &why) < 0) {
                child_note(k, &why);
                sandboxed_init_end(k, child->socket);
        }
        pid_t entering = 1;
        long command = sys_clone_onto(CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, stack, NULL, &entering,
                                      child_run, child);
        if (command < 0)
                fail_at(k, child->socket, SPAWN_STEP_FORK, command);
        int children = child->children;
        if (close_all_but(child->socket, &children) < 0)
                fail_at(k, child->socket, SPAWN_STEP_STDIO, -EMFILE);
        sys_exec_await(&entering);
        if (k->order.is_intercepted) /* the cookie was there (sandbox/exec_notify.h) */
                sys_stack_unmap(stack - COMMAND_STACK_BYTES, COMMAND_STACK_BYTES);
        send_over(k, 0);
        reap(0, children, k->failed_step == SPAWN_STEP_NONE ? (pid_t)command : 0);
}

/* ---- processes of a prebuilt sandbox ---- */

static NO_ASAN void waiter_entry(void *arg)
{
        const struct sandboxed_waiter *w = arg;
        while (!__atomic_load_n(&w->may_go, __ATOMIC_ACQUIRE))
                (void)sys_call4(SYS_futex, &w->may_go, FUTEX_WAIT, 0, NULL);
        child_run(w->child);
}

int sandboxed_sibling_start(void (*fn)(void *), void *arg, pid_t *entering)
{
        char *stack = stack_make();
        *entering = 1;
        return (int)(stack ? sys_clone_onto(CLONE_VM | CLONE_FILES | CLONE_CHILD_CLEARTID | SIGCHLD, stack,
                                            NULL, entering, fn, arg)
                           : -ENOMEM);
}

int sandboxed_waiter_start(struct sandboxed_waiter *w)
{
        w->child->may_run = &w->may_exec;
        w->pid = sandboxed_sibling_start(waiter_entry, w, &w->entering);
        return MIN(w->pid, 0);
}

void sandboxed_gate_open(uint32_t *gate)
{
        __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
        (void)sys_call3(SYS_futex, gate, FUTEX_WAKE, 1);
}

/* Ends the waiter, wherever it is before execve, and reports why. The waiter may have noted a failure of its own meanwhile. */
static NO_ASAN void waiter_refuse(struct keeper *k, const struct sandboxed_waiter *w)
{
        (void)sys_kill(w->pid, SIGKILL);
        while (sys_wait4(w->pid, NULL, __WALL, NULL) == -EINTR)
                continue;
        if (w->is_refused)
                child_note(k, &w->why);
        else if (k->failed_step == SPAWN_STEP_NONE)
                sandboxed_fail_at(k, SPAWN_STEP_NAMESPACES, -ECANCELED); /* the builder was killed */
        sandboxed_init_end(k, w->child->socket);
}

NO_ASAN void sandboxed_waiter_await(struct keeper *k, struct sandboxed_waiter *w, pid_t builder,
                                    pid_t *building)
{
        sys_exec_await(building);
        while (sys_wait4(builder, NULL, __WALL, NULL) == -EINTR)
                continue;
        if (!__atomic_load_n(&w->may_exec, __ATOMIC_ACQUIRE))
                waiter_refuse(k, w);
        int children = w->child->children;
        sys_exec_await(&w->entering);
        /* Until execve the two processes shared one table of descriptors. */
        if (close_all_but(w->child->socket, &children) < 0)
                fail_at(k, w->child->socket, SPAWN_STEP_STDIO, -EMFILE);
        send_over(k, 0);
        reap(0, children, k->failed_step == SPAWN_STEP_NONE ? w->pid : 0);
}

/* box_init: process 1 of a sandbox once it has its view. See box.h. Also for farhand-init, which does not share memory with
 * the keeper: all that is said goes over the socket. */
#include "proc/box_internal.h"

#include "base/sys.h"
#include "sandbox/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define COMMAND_STACK_BYTES (32 * 1024)

NO_ASAN long box_receive(int socket, struct iovec *parts, size_t part_count, int fds[], size_t fd_count)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(BOX_FDS * sizeof(int))];
        struct msghdr msg = { .msg_iov = parts,
                              .msg_iovlen = part_count,
                              .msg_control = control,
                              .msg_controllen = sizeof(control) };
        long n;
        do
                n = sys_call3(SYS_recvmsg, socket, &msg, MSG_CMSG_CLOEXEC);
        while (n == -EINTR);
        if (n < 0)
                return n;
        const struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(fd_count * sizeof(int)))
                return n == 0 ? -EPIPE
                              : -EMFILE; /* what did not fit into our table is left out by the kernel */
        memcpy(fds, CMSG_DATA(c), fd_count * sizeof(int));
        return n;
}

static NO_ASAN void command_entry(void *start)
{
        child_run(start);
}

static void send_to(int socket, const struct box_message *m)
{
        (void)sys_send(socket, m, sizeof(*m), MSG_NOSIGNAL);
}

static void send_over(const struct keeper *k, int socket)
{
        send_to(socket, &(struct box_message){ .kind = BOX_OVER,
                                               .failed_step = k->failed_step,
                                               .failed_errno = k->failed_errno,
                                               .failed_op = k->failed_op });
}

NO_ASAN void box_init_end(const struct keeper *k, int socket)
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

/* Orphans become our children: so everybody in here descends from one of them. The command, not reaped yet, is the only one? */
static bool is_only_child(int children)
{
        char text[32];
        long n = children < 0 ? -1 : sys_call4(SYS_pread64, children, text, sizeof(text), 0);
        long numbers = 0;
        for (long i = 0; i < n; i++)
                numbers += text[i] == ' ';
        return n > 0 && numbers == 1;
}

/* The command is reported before it is reaped: until the keeper has said that it knows, its number outside is taken. */
static NORETURN NO_ASAN void reap(int socket, int children, pid_t command)
{
        for (;;) {
                siginfo_t info = { 0 };
                struct box_message m = { .kind = BOX_EXITED };
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
                /* Who was left behind lives on. Our own end, with all namespaces, takes a while, so it is not waited for. */
                if (is_command && !m.is_alone) {
                        m.kind = sys_kill(-1, 0) == -ESRCH ? BOX_ALONE : BOX_OTHERS;
                        send_to(socket, &m);
                }
        }
}

/* Everything but the socket, which becomes 0, and the list of children, which becomes 1: the command alone holds its pipes when
 * the keeper hears of the start. Both are above 2. */
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
        box_fail_at(k, step, r);
        box_init_end(k, socket);
}

NO_ASAN void box_init_run(struct keeper *k, const struct image *image, struct child_start *child)
{
        struct enter_failure why;
        char *stack = sys_map(COMMAND_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!stack)
                fail_at(k, child->socket, SPAWN_STEP_FORK, -ENOMEM);
        if (enter_confine(image, &why) < 0) {
                child_note(k, &why);
                box_init_end(k, child->socket);
        }
        pid_t entering = 1;
        long command = sys_clone_onto(CLONE_VM | CLONE_CHILD_CLEARTID | SIGCHLD, stack + COMMAND_STACK_BYTES,
                                      NULL, &entering, command_entry, child);
        if (command < 0)
                fail_at(k, child->socket, SPAWN_STEP_FORK, command);
        int children = child->children;
        if (close_all_but(child->socket, &children) < 0)
                fail_at(k, child->socket, SPAWN_STEP_STDIO, -EMFILE);
        sys_exec_await(&entering);
        send_over(k, 0);
        reap(0, children, k->failed_step == SPAWN_STEP_NONE ? (pid_t)command : 0);
}

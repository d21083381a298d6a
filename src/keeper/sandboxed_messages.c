/* sandboxed_messages: the keeper reads what the init of a sandbox and the command report over the socket (sandboxed.h). Raw system
 * calls only. */
#include "base/sys.h"
#include "keeper/sandboxed_internal.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define LISTEN_TRIES 32 /* calls, interrupted ones included */

#define ORPHAN_WAIT_NS 10000000 /* wait between two attempts to end an orphan */

/* ---- while the command is started ---- */

/* Reads what the kernel has put beside a message. */
static void attached_read(struct msghdr *msg, pid_t *ret_sender, int *listener)
{
        for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
                if (c->cmsg_level != SOL_SOCKET)
                        continue;
                if (c->cmsg_type == SCM_CREDENTIALS)
                        *ret_sender = ((const struct ucred *)(const void *)CMSG_DATA(c))->pid;
                if (c->cmsg_type != SCM_RIGHTS)
                        continue;
                if (*listener >= 0)
                        sys_close(*listener);
                *listener = *(const int *)(const void *)CMSG_DATA(c);
        }
}

long sandboxed_message_receive(int socket, struct sandboxed_message *ret, pid_t *ret_sender, int *listener)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
        struct iovec part = { ret, sizeof(*ret) };
        struct msghdr msg = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        unsigned tries = 0;
        long n;
        do
                n = sys_call3(SYS_recvmsg, socket, &msg, MSG_CMSG_CLOEXEC);
        while (sys_again(n, &tries));
        *ret_sender = 0;
        if (n > 0)
                attached_read(&msg, ret_sender, listener);
        return n;
}

/* Kills the sandbox, because a mask is gone. If the command has not come to its execve yet, the start fails by that; otherwise
 * the start has succeeded, and the command dies. */
static void break_off(const struct keeper *k, struct sandboxed *b, pid_t command)
{
        sandboxed_masks_strike(b, k->root, command);
        sandboxed_masks_end(b);
}

/* Waits until there is a message to read. When bwrap was killed, its child waits for bwrap for ever, so the keeper kills that
 * child. The masks are checked first: the kernel reports a change of the mount table only once. */
static void wait_for_message(const struct keeper *k, struct sandboxed *b, int socket, int bwrap,
                             pid_t command)
{
        const struct timespec ts = { .tv_nsec = ORPHAN_WAIT_NS };
        bool is_dead = false;
        while (bwrap >= 0 || b->masks.table >= 0) {
                struct pollfd fds[] = { { .fd = socket, .events = POLLIN },
                                        { .fd = bwrap, .events = POLLIN },
                                        { .fd = b->masks.table, .events = POLLPRI } };
                long r = sys6(SYS_ppoll, SYS_ARG(fds), ARRAY_LEN(fds), is_dead ? SYS_ARG(&ts) : 0, 0, 0, 0);
                if (fds[2].revents && !sandboxed_masks_are_there(b, k->order.image))
                        break_off(k, b, command);
                if (fds[0].revents || (r < 0 && r != -EINTR))
                        return;
                is_dead = fds[1].revents != 0;
                if (is_dead)
                        (void)tree_signal(SIGKILL, k->walk_room, KEEPER_WALK_MAX);
        }
}

/* Finishes the view, and makes the inlets. Returns 0, or -errno with failed_step set. */
static int finish(struct keeper *k, int socket, pid_t init)
{
        int r = k->order.image->finishes ? sandboxed_finish(k, k->order.image, socket, init) : 0;
        if (r < 0 || k->order.inlets.count == 0)
                return r;
        r = sandboxed_inlets_below(k, socket, init);
        if (r < 0)
                sandboxed_fail_at(k, SPAWN_STEP_SANDBOX + ENTER_NETWORK, r);
        return r;
}

/* Does what is left to do outside, and tells the init, which waits for that. On failure nothing is started, and failed_step has the
 * reason. */
static void finish_and_tell(struct keeper *k, struct sandboxed *b, int socket, pid_t init)
{
        if (finish(k, socket, init) < 0) {
                (void)sys_kill(k->root, SIGKILL);
                return;
        }
        sandboxed_masks_hurry(b, k->order.image);
        (void)sys_send(socket, "", 1, MSG_NOSIGNAL);
}

static pid_t hear_start(struct keeper *k, struct sandboxed *b, int socket, int bwrap, pid_t *ret_init)
{
        pid_t command = 0;
        for (;;) {
                struct sandboxed_message m;
                pid_t sender;
                wait_for_message(k, b, socket, bwrap, command);
                long n = sandboxed_message_receive(socket, &m, &sender, &b->listener);
                if (n <= 0)
                        return image_has_init(k->order.image) ? 0 : command;
                if (n != sizeof(m)) {
                        command = sender;
                        if (!sandboxed_masks_begin(b, k->order.image, command))
                                break_off(k, b, command);
                        continue;
                }
                *ret_init = sender;
                if (m.kind == SANDBOXED_HERE) {
                        finish_and_tell(k, b, socket, *ret_init);
                        continue;
                }
                if (m.failed_step != SPAWN_STEP_NONE) {
                        k->failed_op = m.failed_op;
                        k->failed_errno = m.failed_errno;
                        k->failed_step = m.failed_step;
                }
                return command;
        }
}

pid_t sandboxed_hear_start(struct keeper *k, struct sandboxed *b, int socket)
{
        pid_t init = 0;
        bool is_bwrap = k->order.image->backend == BACKEND_BUBBLEWRAP;
        int bwrap = is_bwrap ? sys_pidfd_open(k->root) : -1;
        if (!is_bwrap)
                sandboxed_masks_hurry(b, k->order.image);
        pid_t command = hear_start(k, b, socket, bwrap, &init);
        if (is_bwrap)
                b->inner = init;
        if (bwrap >= 0)
                sys_close(bwrap);
        return command;
}

/* ---- while the command runs ---- */

static long fcntl_patiently(int fd, int what, long value)
{
        unsigned tries = 0;
        long r = -EINTR;
        for (int n = 0; n < LISTEN_TRIES && sys_again(r, &tries); n++)
                r = sys_call3(SYS_fcntl, fd, what, value);
        return r;
}

bool sandboxed_listen(int socket)
{
        return fcntl_patiently(socket, F_SETOWN, sys_getpid()) >= 0 &&
               fcntl_patiently(socket, F_SETSIG, KEEPER_HEAR) >= 0 &&
               fcntl_patiently(socket, F_SETFL, O_ASYNC | O_NONBLOCK | O_RDWR) >= 0;
}

void sandboxed_confirm_exit(struct sandboxed *b)
{
        if (b->is_due && b->socket >= 0)
                (void)sys_write(b->socket, "", 1);
        b->is_due = false;
}

enum sandboxed_news sandboxed_hear(struct sandboxed *b)
{
        unsigned tries = 0;
        for (;;) {
                struct sandboxed_message m;
                if (b->socket < 0)
                        return SANDBOXED_NO_NEWS;
                long n = sys6(SYS_recvfrom, b->socket, SYS_ARG(&m), sizeof(m), MSG_DONTWAIT, 0, 0);
                if (sys_again(n, &tries))
                        continue;
                if (n == -EAGAIN)
                        return SANDBOXED_NO_NEWS;
                if (n != sizeof(m)) {
                        sys_close(b->socket);
                        b->socket = -1;
                } else if (m.kind == SANDBOXED_EXITED) {
                        b->has_exit = true;
                        b->status = m.status;
                        b->usage = m.usage;
                        b->is_due = true;
                        if (m.is_alone)
                                return SANDBOXED_NOBODY_LEFT;
                        sandboxed_confirm_exit(b);
                } else if (m.kind == SANDBOXED_ALONE) {
                        return SANDBOXED_NOBODY_LEFT;
                } else if (m.kind == SANDBOXED_OTHERS) {
                        return SANDBOXED_OTHERS_LEFT;
                }
        }
}

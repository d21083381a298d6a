/* box: see box.h. */
#include "proc/box_internal.h"

#include "base/sys.h"
#include "proc/title.h"
#include "sandbox/enter.h"
#include "sandbox/stub.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define USHER_STACK_BYTES 4096
#define ORPHAN_WAIT_NS 10000000 /* between two attempts to end one */

/* What the init needs; on the keeper's stack, which stays until the start is over. */
struct init_start {
        struct keeper *k;
        int socket;
        bool enters_leaf;
        bool is_ahead;       /* the order comes over the socket, when there is one */
        bool has_net;        /* it was made in its network */
        struct image *image; /* ahead: the head alone */
        pid_t keeper;
};

/* ---- the init ---- */

static NORETURN NO_ASAN void init_fail(struct keeper *k, const struct enter_failure *why)
{
        child_note(k, why);
        sys_exit(127);
}

static bool has_lids(const struct init_start *start)
{
        return start->is_ahead || enter_needs_lids(start->image);
}

static NO_ASAN void init_run(void *arg)
{
        const struct init_start *start = arg;
        struct keeper *k = start->k;
        const struct image *image = start->image;
        struct enter_failure why;
        struct enter_view view;
        struct child_start child = {
                .k = k, .parent = 1, .ruleset = -1, .children = -1, .socket = start->socket
        };

        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-init");
        title_set("fh-init");
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (start->enters_leaf) {
                int entered = cgroup_leaf_enter(k->leaf_fd);
                if (entered < 0 && k->order.needs_leaf)
                        child_fail(k, SPAWN_STEP_LIMITS, entered);
        }
        bool needs_net = !image->has_network && !start->has_net;
        if (enter_ids(image, &why) < 0 || (needs_net && enter_network(&why) < 0) ||
            enter_view_begin(&view, image, has_lids(start), &why) < 0)
                init_fail(k, &why);
        if (start->is_ahead) {
                sys_close(k->init_ends[0]); /* or we would never hear that nobody else has it any more */
                box_ahead_run(k, &view, &child);
        }
        if (enter_view_end(&view, image, k->order.is_tty ? k->order.stdio[0] : -1, &why) < 0)
                init_fail(k, &why);
        child.ruleset = view.ruleset;
        child.children = view.children;
        box_init_run(k, image, &child);
}

/* No view is built: only the network is taken away, or there are no namespaces to build one in. So there is no init. */
static NO_ASAN void light_run(void *arg)
{
        const struct init_start *start = arg;
        struct keeper *k = start->k;
        struct enter_failure why;
        struct child_start child = { .k = k,
                                     .parent = start->keeper,
                                     .enters_leaf = start->enters_leaf,
                                     .image = start->image,
                                     .ruleset = -1,
                                     .children = -1,
                                     .socket = start->socket };
        bool is_alone = start->image->backend == BACKEND_LANDLOCK;
        if (is_alone ? enter_rules(start->image, k->order.is_tty ? k->order.stdio[0] : -1, &child.ruleset,
                                   &why) < 0
                     : enter_ids(start->image, &why) < 0 || enter_network(&why) < 0)
                init_fail(k, &why);
        child_run(&child);
}

/* ---- the keeper ---- */

/* On a stack of its own, because the keeper's is not copied: it is the spawner's shared memory. */
long box_process(struct keeper *k, uint64_t flags, void (*fn)(void *), void *arg, bool *ret_enters_leaf)
{
        flags |= CLONE_PARENT_SETTID;
        if (k->leaf_fd >= 0) {
                struct sys_clone_args args = {
                        .flags = flags | CLONE_INTO_CGROUP,
                        .parent_tid = (uintptr_t)&k->root,
                        .exit_signal =
                                flags & CLONE_PARENT ? 0 : SIGCHLD, /* the caller's own, with CLONE_PARENT */
                        .cgroup = (uint64_t)k->leaf_fd,
                };
                long r = sys_clone3_onto(&args, k->child_stack, fn, arg);
                if (r >= 0 || r == -EAGAIN || r == -ENOMEM || r == -ENOSPC || r == -EUSERS)
                        return r;
                *ret_enters_leaf = true;
        }
        return sys_clone_onto((unsigned long)flags | SIGCHLD, k->child_stack, (pid_t *)&k->root, NULL, fn,
                              arg);
}

static long clone_into(struct keeper *k, struct init_start *start)
{
        uint64_t flags = enter_flags(start->image);
        if (start->has_net)
                flags = (flags & ~(uint64_t)CLONE_NEWNET) | CLONE_PARENT;
        return box_process(k, flags, image_has_init(start->image) ? init_run : light_run, start,
                           &start->enters_leaf);
}

/* The usher: enters the network and makes the init there, as a child of the keeper's. Nobody leaves a user namespace again, and
 * the keeper has work to do outside. */
static NO_ASAN void usher_run(void *arg)
{
        struct init_start *start = arg;
        long r = sys_call2(SYS_setns, start->k->net_fd, CLONE_NEWUSER | CLONE_NEWNET);
        if (r >= 0)
                (void)clone_into(start->k, start);
        sys_exit(0);
}

/* The init's pid or -errno. The kernel has put it into `root` before the init ran, whatever has become of the usher. */
static long clone_ushered(struct keeper *k, struct init_start *start)
{
        _Alignas(16) char stack[USHER_STACK_BYTES];
        start->has_net = true;
        long usher = sys_clone_onto(CLONE_VM | SIGCHLD, stack + sizeof(stack), NULL, NULL, usher_run, start);
        if (usher < 0)
                return usher;
        while (sys_wait4((pid_t)usher, NULL, __WALL, NULL) == -EINTR)
                continue;
        sys_close(k->net_fd);
        return k->root > 0 ? k->root : -ESRCH;
}

static pid_t sender_of(struct msghdr *msg)
{
        const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
        if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
                return 0;
        return ((const struct ucred *)(const void *)CMSG_DATA(c))->pid;
}

/* bwrap that was killed leaves behind whom it had begun to lock up, who waits for it for ever. */
static void wait_for_words(const struct keeper *k, int socket, int bwrap)
{
        struct pollfd fds[] = { { .fd = socket, .events = POLLIN }, { .fd = bwrap, .events = POLLIN } };
        while (bwrap >= 0) {
                const struct timespec ts = { .tv_nsec = ORPHAN_WAIT_NS };
                bool is_dead = fds[1].revents != 0;
                long r = sys6(SYS_ppoll, SYS_ARG(fds), ARRAY_LEN(fds), is_dead ? SYS_ARG(&ts) : 0, 0, 0, 0);
                if (fds[0].revents || (r < 0 && r != -EINTR))
                        return;
                if (fds[1].revents)
                        (void)tree_signal(SIGKILL, k->walk_room, KEEPER_WALK_MAX);
        }
}

/* The command says that it is there, from outside's view of its number; then the init that execve is over. */
static pid_t hear_start(struct keeper *k, int socket, bool has_init, int bwrap, pid_t *ret_init)
{
        pid_t command = 0;
        for (;;) {
                struct box_message m;
                _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
                struct iovec part = { &m, sizeof(m) };
                struct msghdr msg = { .msg_iov = &part,
                                      .msg_iovlen = 1,
                                      .msg_control = control,
                                      .msg_controllen = sizeof(control) };
                wait_for_words(k, socket, bwrap);
                long n = sys_call3(SYS_recvmsg, socket, &msg, MSG_CMSG_CLOEXEC);
                if (n == -EINTR)
                        continue;
                if (n <= 0)
                        return has_init ? 0 : command;
                if (n != sizeof(m)) {
                        command = sender_of(&msg);
                        continue;
                }
                *ret_init = sender_of(&msg);
                if (m.failed_step != SPAWN_STEP_NONE) {
                        k->failed_op = m.failed_op;
                        k->failed_errno = m.failed_errno;
                        k->failed_step = m.failed_step;
                }
                return command;
        }
}

/* From here on a signal comes with every message. */
static void listen_to(int socket)
{
        (void)sys_call3(SYS_fcntl, socket, F_SETOWN, sys_getpid());
        (void)sys_call3(SYS_fcntl, socket, F_SETSIG, KEEPER_HEAR);
        (void)sys_call3(SYS_fcntl, socket, F_SETFL, O_ASYNC | O_NONBLOCK | O_RDWR);
}

/* The init waits for the stubs when it has built all that needs none of them. That there are none is noted. */
static void box_stubs(struct keeper *k, struct image *image)
{
        struct enter_failure why;
        if (stubs_make(image, &why) == 0)
                return;
        /* Dead before we say why, or it might have the last word; but not reaped before the start is over: see `root`. */
        siginfo_t info;
        (void)sys_kill(k->root, SIGKILL);
        while (sys6(SYS_waitid, P_PID, k->root, SYS_ARG(&info), WEXITED | WNOWAIT | __WALL, 0, 0) == -EINTR)
                continue;
        child_note(k, &why);
}

/* Makes the init, and the stubs meanwhile. 0 or -errno, of the init. */
static int box_clone(struct keeper *k, struct init_start *start)
{
        struct image *image = start->image;
        image->stubs_due = image->stub_count > 0;
        long pid = clone_into(k, start);
        if (pid < 0)
                return (int)pid;
        k->root = (pid_t)pid;
        box_stubs(k, image);
        return 0;
}

/* A spare: makes the init, and waits for an order, which goes to the init as well. -ECANCELED: nobody has one. */
static int box_clone_ahead(struct keeper *k, struct init_start *start)
{
        start->is_ahead = true;
        long pid = k->net_fd >= 0 ? clone_ushered(k, start) : -ESRCH;
        if (pid < 0) {
                start->has_net = false;
                pid = clone_into(k, start);
        }
        sys_close(start->socket);
        if (pid > 0)
                k->root = (pid_t)pid;
        if (!box_ahead_await(k, pid > 0))
                return pid < 0 ? (int)pid : -ECANCELED;
        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-keeper");
        box_stubs(k, k->order.image);
        return 0;
}

/* Nobody has told why there is no command: it failed, or somebody killed it. */
static void box_failed(struct keeper *k, struct image *image, int words)
{
        bool is_bwrap = image->backend == BACKEND_BUBBLEWRAP;
        box_fail_at(k, is_bwrap ? SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP : SPAWN_STEP_NAMESPACES, -ECANCELED);
        if (is_bwrap)
                box_bwrap_listen(image, words);
}

static pid_t box_await(struct keeper *k, const struct image *image, int socket, struct box *ret)
{
        pid_t inner = 0;
        int bwrap = image->backend == BACKEND_BUBBLEWRAP ? sys_pidfd_open(k->root) : -1;
        pid_t command = hear_start(k, socket, image_has_init(image), bwrap, &inner);
        if (image->backend == BACKEND_BUBBLEWRAP)
                ret->inner = inner;
        if (bwrap >= 0)
                sys_close(bwrap);
        return command;
}

static int box_make(struct keeper *k, struct init_start *start, int ends[2], int *ret_words)
{
        if (k->init_ends[0] >= 0)
                return box_clone_ahead(k, start);
        int r = start->image->backend == BACKEND_BUBBLEWRAP
                        ? box_bwrap_start(k, start->image, ends, ret_words)
                        : box_clone(k, start);
        sys_close(ends[1]);
        return r;
}

static pid_t box_run(struct keeper *k, struct init_start *start, int ends[2], struct box *ret)
{
        const int yes = 1;
        int words = -1;
        (void)sys6(SYS_setsockopt, ends[0], SOL_SOCKET, SO_PASSCRED, SYS_ARG(&yes), sizeof(yes), 0);
        /* Groups of the server's are no groups of the command's. Who may not drop them has none to gain by them. */
        if (start->image->uid == 0)
                (void)sys_call2(SYS_setgroups, 0, NULL);
        start->socket = ends[1];
        int r = box_make(k, start, ends, &words);
        if (r < 0) {
                if (k->failed_step == SPAWN_STEP_NONE)
                        box_fail_at(k, SPAWN_STEP_NAMESPACES, r);
                sys_close(ends[0]);
                if (words >= 0)
                        sys_close(words);
                return 0;
        }
        struct image *image = k->order.image;
        pid_t pid = k->root;
        pid_t command = box_await(k, image, ends[0], ret);
        if (!image_has_init(image)) {
                sys_close(ends[0]);
                return pid;
        }
        ret->init = pid;
        ret->socket = ends[0];
        if (k->failed_step == SPAWN_STEP_NONE && command <= 0)
                box_failed(k, image, words);
        if (words >= 0)
                sys_close(words);
        listen_to(ends[0]);
        return command;
}

pid_t box_start(struct keeper *k, struct box *ret)
{
        int ends[2] = { k->init_ends[0], k->init_ends[1] };
        struct init_start start = { .k = k, .keeper = sys_getpid(), .image = k->order.image };
        long r =
                ends[0] >= 0 ? 0 : sys_call4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
        if (r < 0) {
                box_fail_at(k, SPAWN_STEP_FORK, r);
                return 0;
        }
        return box_run(k, &start, ends, ret);
}

/* bwrap reaps the init before it exits. One that was killed leaves it to us, and the kernel has killed it. */
bool box_is_gone(struct box *b, int status)
{
        if (b->inner == 0 || !WIFSIGNALED(status))
                return true;
        b->init = b->inner;
        b->inner = 0;
        (void)sys_kill(b->init, SIGKILL);
        return false;
}

void box_known(struct box *b)
{
        if (b->is_due && b->socket >= 0)
                (void)sys_write(b->socket, "", 1);
        b->is_due = false;
}

enum box_news box_hear(struct box *b)
{
        for (;;) {
                struct box_message m;
                if (b->socket < 0)
                        return BOX_NO_NEWS;
                long n = sys6(SYS_recvfrom, b->socket, SYS_ARG(&m), sizeof(m), MSG_DONTWAIT, 0, 0);
                if (n == -EINTR)
                        continue;
                if (n == -EAGAIN)
                        return BOX_NO_NEWS;
                if (n != sizeof(m)) {
                        sys_close(b->socket);
                        b->socket = -1;
                } else if (m.kind == BOX_EXITED) {
                        b->has_exit = true;
                        b->status = m.status;
                        b->usage = m.usage;
                        b->is_due = true;
                        if (m.is_alone)
                                return BOX_NOBODY_LEFT;
                        box_known(b);
                } else if (m.kind == BOX_ALONE) {
                        return BOX_NOBODY_LEFT;
                } else if (m.kind == BOX_OTHERS) {
                        return BOX_OTHERS_LEFT;
                }
        }
}

/* sandboxed: the keeper makes the init of a sandbox in its namespaces, and the init builds its view (sandboxed.h). */
#include "keeper/sandboxed_internal.h"

#include "base/sys.h"
#include "keeper/inlets_make.h"
#include "keeper/title.h"
#include "sandbox/placeholder.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define JOINER_STACK_BYTES 4096

/* What the init needs; on the keeper's stack, which is valid until the start is over. */
struct init_start {
        struct keeper *k;
        int socket;
        bool enters_leaf;
        bool is_ahead; /* prebuilt: the order will come over the socket */
        bool has_net;  /* the init is made in a network that exists already */
        int space_fd;  /* the namespaces that a joiner enters; space_flags are their kinds */
        unsigned long space_flags;
        long joined;         /* the result of the joiner: the init's pid, or -errno */
        struct image *image; /* the sandbox; when prebuilt, without the operations of its plan */
        pid_t keeper;
};

/* ---- functions that run in the init ---- */

static NORETURN NO_ASAN void init_fail(struct keeper *k, const struct enter_failure *why)
{
        child_note(k, why);
        sys_exit(127);
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
        if (start->enters_leaf)
                child_enter_leaf(k);
        bool needs_net = !image->has_network && !start->has_net;
        if (enter_ids(image, &why) < 0 || (needs_net && enter_network(&why) < 0) ||
            enter_view_begin(&view, image, &why) < 0)
                init_fail(k, &why);
        if (start->is_ahead) {
                /* Closes the init's copy of the keeper's end: otherwise the init would not notice when the keeper is gone. */
                sys_close(k->init_ends[0]);
                sandboxed_ahead_run(k, &view, &child);
        }
        child.io = child_stdio(&k->order);
        if (enter_view_fill(&view, image, &child.io, &why) < 0 || enter_view_close(&view, &why) < 0)
                init_fail(k, &why);
        child.ruleset = view.landlock.ruleset;
        child.children = view.children;
        if (k->order.inlets.count > 0)
                keeper_await_inlets(k);
        sandboxed_init_run(k, image, &child);
}

/* With Landlock alone there are no namespaces, and so no init: the command confines itself. */
static NO_ASAN void alone_run(void *arg)
{
        const struct init_start *start = arg;
        struct keeper *k = start->k;
        struct enter_failure why;
        struct child_start child = { .k = k,
                                     .parent = start->keeper,
                                     .enters_leaf = start->enters_leaf,
                                     .image = start->image,
                                     .io = child_stdio(&k->order),
                                     .ruleset = -1,
                                     .children = -1,
                                     .socket = start->socket };
        if (enter_rules(start->image, &child.io, &child.ruleset, &why) < 0)
                init_fail(k, &why);
        child_run(&child);
}

/* ---- functions that run in the keeper ---- */

/* The process gets a stack of its own, because the keeper's stack is memory that is shared with the spawner and not copied. */
long sandboxed_process(struct keeper *k, uint64_t flags, void (*fn)(void *), void *arg, bool *ret_enters_leaf)
{
        flags |= CLONE_PARENT_SETTID;
        if (k->leaf_fd >= 0) {
                struct sys_clone_args args = {
                        .flags = flags | CLONE_INTO_CGROUP,
                        .parent_tid = (uintptr_t)&k->root,
                        .exit_signal =
                                flags & CLONE_PARENT ? 0 : SIGCHLD, /* 0: the exit signal of the caller */
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

static long clone_into(struct keeper *k, struct init_start *start, bool by_joiner)
{
        uint64_t flags = enter_flags(start->image) | (by_joiner ? CLONE_PARENT : 0);
        if (start->has_net)
                flags &= ~(uint64_t)CLONE_NEWNET;
        return sandboxed_process(k, flags, image_has_init(start->image) ? init_run : alone_run, start,
                                 &start->enters_leaf);
}

/* The joiner enters namespaces and makes the init there, as a child of the keeper. The keeper cannot do that itself: a process
 * cannot leave a user namespace again, and the keeper has work to do outside. */
static NO_ASAN void joiner_run(void *arg)
{
        struct init_start *start = arg;
        long r = sys_call2(SYS_setns, start->space_fd, start->space_flags);
        start->joined = r < 0 ? r : clone_into(start->k, start, true);
        sys_exit(0);
}

/* Has a joiner make the init. Returns the pid of the init, or -errno. The kernel has written that pid to k->root
 * before the init ran, also when the joiner was killed. */
static long clone_by_joiner(struct keeper *k, struct init_start *start, int fd, unsigned long flags)
{
        _Alignas(16) char stack[JOINER_STACK_BYTES];
        start->space_fd = fd;
        start->space_flags = flags;
        start->joined = -ESRCH;
        long joiner =
                sys_clone_onto(CLONE_VM | SIGCHLD, stack + sizeof(stack), NULL, NULL, joiner_run, start);
        if (joiner < 0)
                return joiner;
        while (sys_wait4((pid_t)joiner, NULL, __WALL, NULL) == -EINTR)
                continue;
        return k->root > 0 ? k->root : start->joined;
}

/* Makes the init inside of the fence, if there is one. */
static long clone_fenced(struct keeper *k, struct init_start *start)
{
        bool is_fenced = k->fence_fd >= 0 && start->image->needs_user;
        return is_fenced ? clone_by_joiner(k, start, k->fence_fd, CLONE_NEWUSER)
                         : clone_into(k, start, false);
}

/* Kills the init. To be called before a failure is noted, or the init could overwrite it. The init is not reaped before the start is
 * over: see keeper::root. */
static void init_stop(const struct keeper *k)
{
        siginfo_t info;
        (void)sys_kill(k->root, SIGKILL);
        while (sys6(SYS_waitid, P_PID, k->root, SYS_ARG(&info), WEXITED | WNOWAIT | __WALL, 0, 0) == -EINTR)
                continue;
}

/* Makes the placeholders, while the init builds what needs none and then waits. If that fails, kills the init and notes the
 * reason. Returns 0 or -errno. */
static int sandboxed_placeholders(struct keeper *k, struct image *image)
{
        struct enter_failure why;
        int r = placeholders_make(image, &why);
        if (r == 0)
                return 0;
        init_stop(k);
        child_note(k, &why);
        return r;
}

/* Makes the inlets, while the init builds the view and then waits. `net`: the network that existed before the init, or -1. If that
 * fails, kills the init and notes the reason, unless the init has noted why it has ended. */
static void sandboxed_inlets(struct keeper *k, int net)
{
        if (k->order.inlets.count == 0)
                return;
        int r = net >= 0 ? inlets_make(k, net, net, true) : inlets_make_in(k, k->root);
        if (r == 0) {
                sandboxed_gate_open(&k->inlets_made);
                return;
        }
        init_stop(k);
        if (k->failed_step == SPAWN_STEP_NONE)
                sandboxed_fail_at(k, SPAWN_STEP_SANDBOX + ENTER_NETWORK, r);
}

/* Makes the init, and meanwhile the placeholders. Returns 0, or -errno when the init could not be made. */
static int sandboxed_clone(struct keeper *k, struct init_start *start)
{
        struct image *image = start->image;
        image->placeholders_due = image->placeholder_count > 0;
        long pid = clone_fenced(k, start);
        if (pid < 0)
                return (int)pid;
        k->root = (pid_t)pid;
        if (sandboxed_placeholders(k, image) == 0)
                sandboxed_inlets(k, -1);
        return 0;
}

/* For a prebuilt sandbox: takes the socket for the inlets, which the spawner has sent before it gave the order, and makes them. The
 * init has confined itself, so its network can be entered by net_fd only. */
static void sandboxed_inlets_ahead(struct keeper *k)
{
        char byte;
        struct iovec part = { &byte, 1 };
        if (k->order.inlets.count == 0)
                return;
        long r = sandboxed_receive(k->order_ends[1], &part, 1, &k->order.inlet_socket, 1);
        if (r == 1)
                sandboxed_inlets(k, k->net_fd);
        else {
                init_stop(k);
                sandboxed_fail_at(k, SPAWN_STEP_SANDBOX + ENTER_NETWORK, r < 0 ? r : -EPROTO);
        }
}

/* For a prebuilt sandbox: makes the init, and waits for an order, which the init gets as well. Returns 0, or -errno:
 * -ECANCELED when there will be no order. */
static int sandboxed_clone_ahead(struct keeper *k, struct init_start *start)
{
        start->is_ahead = true;
        long pid = -ESRCH;
        sys_close(k->order_ends[0]); /* the spawner's */
        if (k->net_fd >= 0) {
                start->has_net = true;
                pid = clone_by_joiner(k, start, k->net_fd, CLONE_NEWUSER | CLONE_NEWNET);
                atomic_store_explicit(&k->is_in_net, pid > 0, memory_order_release);
        }
        if (pid < 0) {
                start->has_net = false;
                pid = clone_fenced(k, start);
        }
        sys_close(start->socket);
        if (pid > 0)
                k->root = (pid_t)pid;
        if (!sandboxed_ahead_await(k, pid > 0))
                return pid < 0 ? (int)pid : -ECANCELED;
        (void)sys_prctl(PR_SET_NAME, (unsigned long)KEEPER_NAME);
        if (sandboxed_placeholders(k, k->order.image) == 0)
                sandboxed_inlets_ahead(k);
        sys_close(k->order_ends[1]);
        if (k->net_fd >= 0)
                sys_close(k->net_fd);
        return 0;
}

/* Notes a failure when there is no command and no reason was reported: a process of the sandbox failed without a report, or was
 * killed. */
static void sandboxed_failed(struct keeper *k, struct image *image, int errors_fd)
{
        bool is_bwrap = image->backend == BACKEND_BUBBLEWRAP;
        sandboxed_fail_at(k, is_bwrap ? SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP : SPAWN_STEP_NAMESPACES,
                          -ECANCELED);
        if (is_bwrap)
                sandboxed_bwrap_read_errors(image, errors_fd);
}

static int sandboxed_make(struct keeper *k, struct init_start *start, int ends[2], int *ret_errors_fd)
{
        if (k->init_ends[0] >= 0)
                return sandboxed_clone_ahead(k, start);
        int r = start->image->backend == BACKEND_BUBBLEWRAP
                        ? sandboxed_bwrap_start(k, start->image, ends, ret_errors_fd)
                        : sandboxed_clone(k, start);
        sys_close(ends[1]);
        return r;
}

/* Writes a pid into the image. The guard reads it there, to kill the process when a mask is gone (confine/guard.h). */
static void pid_publish(struct image *image, size_t at, pid_t pid)
{
        __atomic_store_n(&image->line[at], pid, __ATOMIC_SEQ_CST);
}

/* Has the kernel tell the sender of each message. Without this the keeper would not learn the command's pid, and the start would
 * fail later without a reason. */
static void listen_for_senders(int socket)
{
        const int yes = 1;
        unsigned tries = 0;
        long r;
        do
                r = sys6(SYS_setsockopt, socket, SOL_SOCKET, SO_PASSCRED, SYS_ARG(&yes), sizeof(yes), 0);
        while (sys_again(r, &tries));
}

static pid_t sandboxed_run(struct keeper *k, struct init_start *start, int ends[2], struct sandboxed *ret)
{
        int errors_fd = -1;
        listen_for_senders(ends[0]);
        /* The command must not have the supplementary groups of the server. Only root may drop them; for another user
         * they are the user's own. */
        if (start->image->uid == 0)
                (void)sys_call2(SYS_setgroups, 0, NULL);
        start->socket = ends[1];
        int r = sandboxed_make(k, start, ends, &errors_fd);
        if (r < 0) {
                if (k->failed_step == SPAWN_STEP_NONE)
                        sandboxed_fail_at(k, SPAWN_STEP_NAMESPACES, r);
                sys_close(ends[0]);
                if (errors_fd >= 0)
                        sys_close(errors_fd);
                return 0;
        }
        struct image *image = k->order.image;
        pid_t pid = k->root;
        pid_publish(image, IMAGE_SPAWNER, k->spawner);
        pid_publish(image, IMAGE_KEEPER, start->keeper);
        pid_publish(image, IMAGE_INIT, pid);
        pid_t command = sandboxed_hear_start(k, ret, ends[0]);
        if (ret->inner > 0)
                pid_publish(image, IMAGE_BELOW_INIT, ret->inner);
        if (command > 0)
                pid_publish(image, IMAGE_BELOW_INIT + (ret->inner > 0), command);
        if (!image_has_init(image)) {
                sys_close(ends[0]);
                return pid;
        }
        ret->init = pid;
        ret->socket = ends[0];
        if (k->failed_step == SPAWN_STEP_NONE && command <= 0)
                sandboxed_failed(k, image, errors_fd);
        if (errors_fd >= 0)
                sys_close(errors_fd);
        ret->must_look = !sandboxed_listen(ends[0]);
        return command;
}

pid_t sandboxed_start(struct keeper *k, struct sandboxed *ret)
{
        int ends[2] = { k->init_ends[0], k->init_ends[1] };
        struct init_start start = { .k = k, .keeper = sys_getpid(), .image = k->order.image };
        long r =
                ends[0] >= 0 ? 0 : sys_call4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
        if (r < 0) {
                sandboxed_fail_at(k, SPAWN_STEP_FORK, r);
                return 0;
        }
        return sandboxed_run(k, &start, ends, ret);
}

/* bwrap reaps the init before it exits. When bwrap was killed, the kernel kills the init, and the keeper has to reap it. */
bool sandboxed_is_gone(struct sandboxed *b, int status)
{
        if (b->inner == 0 || !WIFSIGNALED(status))
                return true;
        b->init = b->inner;
        b->inner = 0;
        (void)sys_kill(b->init, SIGKILL);
        return false;
}

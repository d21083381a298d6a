/* keeper: starts a command, reports to the server, passes signals on, and ends the tree of the command.
 *
 * Nothing of libc is called from here down to execve: errno, thread-local storage and the heap are the spawner's.
 */
#include "keeper/keeper.h"

#include "base/sys.h"
#include "keeper/child.h"
#include "keeper/inlets_make.h"
#include "keeper/intercepted.h"
#include "keeper/sandboxed_internal.h"
#include "keeper/tree.h"
#include "sandbox/image.h"
#include "sandbox/placeholder.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MS_NS 1000000L
/* The wait between two rounds of killing: it begins with the first of these, and doubles up to the last while nothing is reaped. */
#define KILL_WAIT_FIRST_MS 1
#define KILL_WAIT_LAST_MS 100
#define SEND_WAIT_MS 5
#define WALK_KEPT 512
#define STOPPED_LOOK_MS 1 /* the broker lets a process that it has stopped go on at once */

_Static_assert(KEEPER_KILL == IMAGE_KEEPER_KILL, "the guard sends it");

#define WAKE_SET                                                                               \
        (SYS_SIGNAL_BIT(SIGCHLD) | SYS_SIGNAL_BIT(KEEPER_LOOK) | SYS_SIGNAL_BIT(KEEPER_KILL) | \
         SYS_SIGNAL_BIT(KEEPER_HEAR))

/* What only the keeper needs; on its stack. */
struct keeping {
        struct keeper *k;
        pid_t self;
        pid_t root; /* the command; 0 when it was reaped */
        struct sandboxed sandboxed;
        bool is_exit_due; /* a command in a sandbox has exited, and has to be reported */
        bool is_killing;
        bool must_reap; /* a child that the broker has stopped hides others that may have ended */
};

/* ---- making the command's process ---- */

/* Returns whether a child that could not be cloned into its cgroup may still enter it by itself: the kernel is old, or a seccomp
 * filter forbids clone3. */
static bool is_worth_entering(long r)
{
        return r < 0 && r != -EAGAIN && r != -ENOMEM;
}

/* Makes a child that shares our memory. Before the child runs, the kernel writes its pid to k->root. When the child has called
 * execve or died, the kernel clears *entering. */
static long clone_shared(struct keeper *k, struct child_start *start, pid_t *entering)
{
        if (k->leaf_fd >= 0) {
                struct sys_clone_args args = {
                        .flags = CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_INTO_CGROUP,
                        .parent_tid = (uintptr_t)&k->root,
                        .child_tid = (uintptr_t)entering,
                        .exit_signal = SIGCHLD,
                        .cgroup = (uint64_t)k->leaf_fd,
                };
                long r = sys_clone3_onto(&args, k->child_stack, child_run, start);
                if (!is_worth_entering(r))
                        return r;
                start->enters_leaf = true;
        }
        return sys_clone_onto(CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, k->child_stack,
                              (pid_t *)&k->root, entering, child_run, start);
}

static long start_shared(struct keeper *k, struct child_start *start)
{
        pid_t entering = 1;
        long pid = clone_shared(k, start, &entering);
        if (pid >= 0)
                sys_exec_await(&entering);
        return pid;
}

static long fork_into_leaf(const struct keeper *k, struct child_start *start)
{
        if (k->leaf_fd >= 0) {
                long r = sys_fork_into(k->leaf_fd);
                if (!is_worth_entering(r))
                        return r;
                start->enters_leaf = true;
        }
        return sys_fork();
}

/* Makes a child that shares only `k`. A close-on-exec socket tells when execve is over; the listener of an intercepted command
 * comes over it. */
static long start_fork(struct keeper *k, struct child_start *start, int *ret_listener)
{
        int ends[2];
        long r = sys_call4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
        if (r < 0)
                return r;
        if (k->order.is_intercepted)
                start->socket = ends[1];

        long pid = fork_into_leaf(k, start);
        if (pid == 0)
                child_run(start);
        sys_close(ends[1]);
        if (pid > 0) {
                k->root = (pid_t)pid;
                struct sandboxed_message m;
                pid_t sender;
                while (sandboxed_message_receive(ends[0], &m, &sender, ret_listener) > 0)
                        continue;
        }
        sys_close(ends[0]);
        return pid;
}

/* ---- killing, reporting and reaping ---- */

static int walk(const struct keeping *s, int signo)
{
        struct tree_entry *room = s->k->walk_room;
        int r = tree_signal(signo, room, KEEPER_WALK_MAX);
        /* Frees the pages beyond the first few, or they would stay for the life of the command. */
        if (room[WALK_KEPT].pid != 0)
                sys_discard(room, KEEPER_WALK_MAX * sizeof(*room), MADV_REMOVE);
        return r;
}

/* Processes in the cgroup cannot escape by forking. The walk finds the processes that have left the cgroup, or all of them when
 * there is no cgroup. */
static void killing_round(struct keeping *s)
{
        if (s->k->leaf_fd >= 0)
                (void)cgroup_leaf_kill(s->k->leaf_fd);
        if (s->sandboxed.init)
                (void)sys_kill(s->sandboxed.init, SIGKILL);
        if (s->root)
                (void)sys_kill(-s->root, SIGKILL);
        (void)walk(s, SIGKILL); /* repeated until wait finds no child */
}

/* Called when a mask of the sandbox is gone: the command must be stopped from reading before anything else is done. */
static void break_off(struct keeping *s)
{
        s->is_killing = true;
        if (s->sandboxed.init)
                sandboxed_masks_strike(&s->sandboxed, s->sandboxed.init, s->root);
        killing_round(s);
        sandboxed_masks_end(&s->sandboxed);
}

/* Called when the keeper was told to kill. If the guard did so because a mask is gone (is_broken), the keeper does the same as
 * when it notices that itself. */
static void kill_begin(struct keeping *s)
{
        if (s->sandboxed.masks.table >= 0 && __atomic_load_n(&s->k->order.image->is_broken, __ATOMIC_SEQ_CST))
                break_off(s);
        s->is_killing = true;
        sandboxed_masks_end(&s->sandboxed);
}

/* Sleeps until a signal comes, or until the next round of killing is due. */
static void wait_for_news(struct keeping *s, long killing_ms)
{
        const struct timespec ts = { .tv_nsec = killing_ms * MS_NS },
                              look = { .tv_nsec = SANDBOXED_LOOK_MS * MS_NS },
                              stopped = { .tv_nsec = STOPPED_LOOK_MS * MS_NS };
        int signo;
        if (s->sandboxed.masks.table >= 0 && !s->is_killing)
                signo = sandboxed_masks_wait(&s->sandboxed, s->k->order.image, WAKE_SET);
        else
                signo = sys_sigtimedwait(WAKE_SET, s->is_killing            ? &ts
                                                   : s->must_reap           ? &stopped
                                                   : s->sandboxed.must_look ? &look
                                                                            : NULL);
        if (signo == 0)
                break_off(s);
        else if (signo == KEEPER_KILL)
                kill_begin(s);
}

/* Sends a report, and waits for room in the socket if need be. The server may be stopped and read nothing: even then the keeper
 * must obey an order to kill. */
static void report(struct keeping *s, const struct spawn_report *what)
{
        for (;;) {
                long r = sys_send(s->k->socket, what, sizeof(*what), MSG_DONTWAIT | MSG_NOSIGNAL);
                if (r != -EAGAIN && r != -ENOBUFS && r != -ENOMEM)
                        return;
                struct timespec ts = { .tv_nsec = SEND_WAIT_MS * MS_NS };
                if (sys_sigtimedwait(SYS_SIGNAL_BIT(KEEPER_KILL), &ts) == KEEPER_KILL)
                        kill_begin(s);
                else if (!sandboxed_masks_are_there(&s->sandboxed, s->k->order.image))
                        break_off(s);
                if (s->is_killing)
                        killing_round(s);
        }
}

static uint32_t limits_met(const struct keeper *k)
{
        uint32_t events = k->order.needs_leaf ? cgroup_leaf_events(k->leaf_fd) : 0;
        return (events & CGROUP_MEMORY ? SPAWN_MET_MEMORY : 0u) |
               (events & CGROUP_PIDS ? SPAWN_MET_PROCESSES : 0u) |
               (atomic_load_explicit(&k->is_holder, memory_order_acquire) ? SPAWN_MET_HELD : 0u);
}

static void report_exit(struct keeping *s, int status, const struct rusage *u)
{
        struct spawn_report what = {
                .kind = SPAWN_EXITED,
                .number = s->k->number,
                .status = status,
                .user_us = (uint64_t)u->ru_utime.tv_sec * 1000000 + (uint64_t)u->ru_utime.tv_usec,
                .system_us = (uint64_t)u->ru_stime.tv_sec * 1000000 + (uint64_t)u->ru_stime.tv_usec,
                .max_rss_bytes = (uint64_t)u->ru_maxrss * 1024,
                .met = limits_met(s->k),
                .run = s->k->run,
                .escalated = s->k->escalated,
                .denied = s->k->denied,
        };
        report(s, &what);
        if (s->k->tells)
                (void)sys_kill(s->k->spawner, SPAWNER_LOOK);
}

/* Sends nothing to a command that was reaped: its pid may belong to another process. */
static int signal_send(const struct keeping *s, int signo, uint32_t scope)
{
        int r = 0;
        if (scope == SPAWN_TREE)
                r = walk(s, signo);
        else if (s->root)
                r = sys_kill(scope == SPAWN_GROUP ? -s->root : s->root, signo);
        return r == -ESRCH ? 0 : r;
}

static void signals_take(struct keeping *s)
{
        struct keeper *k = s->k;
        uint32_t out = atomic_load_explicit(&k->signals_out, memory_order_relaxed);
        while (out != atomic_load_explicit(&k->signals_in, memory_order_acquire)) {
                int32_t signo = k->signals[out % SPAWN_SIGNALS_MAX].signo;
                uint32_t scope = k->signals[out % SPAWN_SIGNALS_MAX].scope;
                atomic_store_explicit(&k->signals_out, ++out, memory_order_release);

                struct spawn_report what = {
                        .kind = SPAWN_SIGNALLED,
                        .number = k->number,
                        .os_errno = -signal_send(s, signo, scope),
                };
                report(s, &what);
        }
}

/* The exit of the command is reported once it is known which processes are left. When none is left, placeholders are removed first,
 * so that the client finds the directory as it was before. */
static void hear(struct keeping *s)
{
        enum sandboxed_news news = sandboxed_hear(&s->sandboxed);
        /* An open mount table keeps the mounts alive. It is closed before the init ends, so that the keeper does not
         * have to wait while the kernel takes the mounts down. */
        if (news == SANDBOXED_NOBODY_LEFT)
                sandboxed_masks_end(&s->sandboxed);
        if (s->sandboxed.has_exit && s->root) {
                s->is_exit_due = true;
                s->root = 0;
        }
        if (news == SANDBOXED_NOBODY_LEFT)
                placeholders_remove(s->k->order.image, true);
        if (news != SANDBOXED_NO_NEWS && s->is_exit_due) {
                s->is_exit_due = false;
                report_exit(s, s->sandboxed.status, &s->sandboxed.usage);
        }
        if (news == SANDBOXED_NOBODY_LEFT)
                placeholders_forget(s->k->order.image);
        sandboxed_confirm_exit(&s->sandboxed);
}

static void init_gone(struct keeping *s, int status, const struct rusage *usage)
{
        hear(s);
        sandboxed_masks_end(&s->sandboxed);
        s->sandboxed.init = 0;
        placeholders_remove(s->k->order.image, true);
        if (s->is_exit_due)
                report_exit(s, s->sandboxed.status, &s->sandboxed.usage);
        else if (s->root) /* the init was killed, and so the kernel killed the command */
                report_exit(s, WIFSIGNALED(status) ? status : SIGKILL, usage);
        s->is_exit_due = false;
        s->root = 0;
}

/* Reaps all children that have ended; *ret_any says whether there was one. Returns false when no child is left. */
static bool reap(struct keeping *s, bool *ret_any)
{
        *ret_any = s->must_reap = false;
        for (;;) {
                int status;
                struct rusage usage;
                pid_t pid = s->k->order.is_intercepted ? intercepted_reap(&status, &usage)
                                                       : sys_wait4(-1, &status, WNOHANG | __WALL, &usage);
                if (pid == -EINTR)
                        continue;
                s->must_reap = pid == -EAGAIN;
                if (pid <= 0)
                        return pid != -ECHILD;
                *ret_any = true;
                if (pid == s->sandboxed.init && sandboxed_is_gone(&s->sandboxed, status))
                        init_gone(s, status, &usage);
                if (pid == s->root) {
                        s->root = 0;
                        report_exit(s, status, &usage);
                }
        }
}

static void keep(struct keeping *s)
{
        long wait_ms = KILL_WAIT_FIRST_MS;
        bool reaped;
        if (atomic_load_explicit(&s->k->is_kill_wanted, memory_order_acquire))
                kill_begin(s); /* KEEPER_KILL may have come while a prebuilt sandbox waited for its order */
        while (reap(s, &reaped) || atomic_load_explicit(&s->k->broker_children, memory_order_acquire) > 0) {
                hear(s);
                signals_take(s);
                if (s->is_killing) {
                        killing_round(s);
                        wait_ms = reaped ? KILL_WAIT_FIRST_MS : MIN(wait_ms * 2, KILL_WAIT_LAST_MS);
                }
                wait_for_news(s, wait_ms);
        }
        signals_take(s);
}

/* Makes the broker. Without it nothing would decide about the programs of the command, which runs by now: so the tree is killed. */
static void broker_begin(struct keeping *s, pid_t root)
{
        struct sandboxed *b = &s->sandboxed;
        int r = b->listener < 0 ? -EMFILE : intercepted_begin(s->k, b->listener, root, b->urgent, &b->before);
        if (r == 0)
                return;
        sandboxed_fail_at(s->k, SPAWN_STEP_INTERCEPT, r);
        kill_begin(s);
}

/* Called when the command runs or has failed: the order is not read any more. Its descriptors must not stay open here, or a
 * reader of the command's output would wait for the keeper. Closing them may block for as long as the command keeps a pipe locked
 * (spawner/pipe_watch.h), and the keeper cannot kill then: so until is_over the spawner kills the command. */
static void order_release(struct keeper *k)
{
        for (int i = 0; i < 3; i++)
                sys_close(k->order.stdio[i]);
        for (int i = 0; i < 2; i++)
                if (k->order.bwrap[i] >= 0)
                        sys_close(k->order.bwrap[i]);
        inlets_disconnect(k);
        if (!k->is_fork && k->strings)
                sys_discard(k->strings, k->strings_bytes, MADV_DONTNEED);
        _Atomic(void *) *owner = k->is_fork ? NULL : k->strings_owner;

        atomic_store_explicit(&k->is_over, true, memory_order_release);
        if (owner)
                atomic_store_explicit(owner, NULL, memory_order_release);
}

static void start(struct keeping *s)
{
        struct keeper *k = s->k;
        struct child_start child = { .k = k,
                                     .parent = s->self,
                                     .io = child_stdio(&k->order),
                                     .ruleset = -1,
                                     .children = -1,
                                     .socket = -1 };
        long pid = -ECANCELED;
        if (k->init_ends[0] < 0)
                keeper_await_handover(k, k->spawner);
        if (atomic_load_explicit(&k->is_kill_wanted, memory_order_acquire))
                ;
        else if (k->order.image)
                pid = sandboxed_start(k, &s->sandboxed);
        else
                pid = k->is_fork ? start_fork(k, &child, &s->sandboxed.listener) : start_shared(k, &child);
        if (atomic_load_explicit(&k->waits, memory_order_relaxed) == KEEPER_GAVE_UP)
                return;

        struct spawn_report what = { .kind = SPAWN_STARTED, .number = k->number, .pid = (pid_t)pid };
        if (pid < 0) {
                k->failed_step = SPAWN_STEP_FORK;
                k->failed_errno = (int32_t)-pid;
        } else if (k->failed_step == SPAWN_STEP_NONE && k->order.is_intercepted) {
                broker_begin(s, (pid_t)pid);
        }
        if (pid >= 0 && k->failed_step == SPAWN_STEP_NONE)
                s->root = (pid_t)pid;
        if (k->failed_step != SPAWN_STEP_NONE) {
                what.kind = SPAWN_FAILED;
                what.step = k->failed_step;
                what.os_errno = k->failed_errno;
                what.op = k->failed_op;
        }
        order_release(k);
        /* When the server hears of the start, only the command may have the command's pipes open. */
        keeper_await_handover(k, k->spawner);
        report(s, &what);
}

void keeper_run(void *keeper)
{
        struct keeping s = { .k = keeper, .self = sys_getpid(), .sandboxed = SANDBOXED_INIT };

        bool is_prebuilt = s.k->init_ends[0] >= 0;
        const char *name = is_prebuilt        ? KEEPER_PREBUILT_NAME
                           : s.k->order.image ? KEEPER_NAME
                                              : KEEPER_PLAIN_NAME;
        (void)sys_prctl(PR_SET_NAME, (unsigned long)name);
        (void)sys_prctl(PR_SET_PDEATHSIG, KEEPER_KILL);
        /* Otherwise orphans of the command would become children of the spawner, which ends them. */
        int r = sys_prctl(PR_SET_CHILD_SUBREAPER, 1);
        /* The kernel sends nothing when the spawner died before PDEATHSIG was set. */
        if (r < 0 || sys_getppid() != s.k->spawner)
                sys_exit(1);

        start(&s);
        keep(&s);
        bool was_used = atomic_load_explicit(&s.k->waits, memory_order_relaxed) == KEEPER_ORDERED;
        if (was_used && s.k->order.image)
                placeholders_remove(s.k->order.image, true);
        if (s.k->leaf_fd >= 0 && sys_getppid() != s.k->spawner)
                cgroup_leaf_abandon(s.k->cgroup, s.k->leaf);
        sys_exit(0);
}

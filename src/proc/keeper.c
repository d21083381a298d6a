/* keeper: see keeper.h. From here down to execve nothing of libc is called: errno and thread-local storage are the
 * spawner's, and so is the heap. */
#include "proc/keeper.h"

#include "base/sys.h"
#include "proc/box.h"
#include "proc/child.h"
#include "proc/spawn.h"
#include "proc/tree.h"
#include "sandbox/stub.h"

#include <errno.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MS_NS 1000000L
#define KILL_WAIT_FIRST_MS 1  /* between two rounds of killing when nothing was reaped … */
#define KILL_WAIT_LAST_MS 100 /* … growing up to here */
#define SEND_WAIT_MS 5
#define WALK_KEPT 512

#define WAKE_SET                                                                               \
        (SYS_SIGNAL_BIT(SIGCHLD) | SYS_SIGNAL_BIT(KEEPER_LOOK) | SYS_SIGNAL_BIT(KEEPER_KILL) | \
         SYS_SIGNAL_BIT(KEEPER_HEAR))

/* What only the keeper needs; on its stack. */
struct keeping {
        struct keeper *k;
        pid_t self;
        pid_t root; /* 0 when reaped */
        struct box box;
        bool is_exit_due; /* of a command in a sandbox: it has exited, and is reported soon */
        bool is_killing;
};

/* ---- starting ---- */

static void child_entry(void *arg)
{
        child_run(arg);
}

/* Whether a child that could not be cloned into its leaf might still enter it by itself: an old kernel, or a filter
 * that lets nobody use clone3. */
static bool is_worth_entering(long r)
{
        return r < 0 && r != -EAGAIN && r != -ENOMEM;
}

/* Shared memory, and we sleep until it has exec'd or died. The pid is in place before the child runs. */
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
                long r = sys_clone3_onto(&args, k->child_stack, child_entry, start);
                if (!is_worth_entering(r))
                        return r;
                start->enters_leaf = true;
        }
        return sys_clone_onto(CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD, k->child_stack,
                              (pid_t *)&k->root, entering, child_entry, start);
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

/* No shared memory but `k`: the end of a close-on-exec pipe says that execve is over. */
static long start_fork(struct keeper *k, struct child_start *start)
{
        int ends[2];
        long r = sys_call2(SYS_pipe2, ends, O_CLOEXEC);
        if (r < 0)
                return r;

        long pid = fork_into_leaf(k, start);
        if (pid == 0)
                child_run(start);
        sys_close(ends[1]);
        if (pid > 0) {
                k->root = (pid_t)pid;
                char byte;
                while (sys_read(ends[0], &byte, 1) == -EINTR)
                        continue;
        }
        sys_close(ends[0]);
        return pid;
}

/* ---- the keeper ---- */

static int walk(const struct keeping *s, int signo)
{
        struct tree_entry *room = s->k->walk_room;
        int r = tree_signal(signo, room, KEEPER_WALK_MAX);
        /* Pages beyond the first few do not stay for the rest of the command's life. */
        if (room[WALK_KEPT].pid != 0)
                sys_discard(room, KEEPER_WALK_MAX * sizeof(*room), MADV_REMOVE);
        return r;
}

/* Who is in the cgroup cannot outrun it by forking. Who has left it, or where there is none, the walk finds. */
static void killing_round(struct keeping *s)
{
        if (s->k->leaf_fd >= 0)
                (void)cgroup_leaf_kill(s->k->leaf_fd);
        if (s->box.init)
                (void)sys_kill(s->box.init, SIGKILL);
        if (s->root)
                (void)sys_kill(-s->root, SIGKILL);
        (void)walk(s, SIGKILL); /* tried again until wait says that nobody is left */
}

/* The server always reads, unless it is stopped; then the order to kill must still be heard. */
static void report(struct keeping *s, const struct spawn_report *what)
{
        for (;;) {
                long r = sys_send(s->k->socket, what, sizeof(*what), MSG_DONTWAIT | MSG_NOSIGNAL);
                if (r != -EAGAIN && r != -ENOBUFS && r != -ENOMEM)
                        return;
                struct timespec ts = { .tv_nsec = SEND_WAIT_MS * MS_NS };
                if (sys_sigtimedwait(SYS_SIGNAL_BIT(KEEPER_KILL), &ts) == KEEPER_KILL)
                        s->is_killing = true;
                if (s->is_killing)
                        killing_round(s);
        }
}

static uint32_t met(const struct keeper *k)
{
        uint32_t events = k->order.needs_leaf ? cgroup_leaf_events(k->leaf_fd) : 0;
        return (events & CGROUP_MEMORY ? SPAWN_MET_MEMORY : 0u) |
               (events & CGROUP_PIDS ? SPAWN_MET_PROCESSES : 0u);
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
                .met = met(s->k),
        };
        report(s, &what);
}

/* Whose number is not ours any more gets nothing: it may have been given to somebody else. */
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

/* The command's exit is told when it is known who is left: when nobody is, stubs go first, so that who hears of the exit
 * finds the directory as it was. */
static void hear(struct keeping *s)
{
        enum box_news news = box_hear(&s->box);
        if (s->box.has_exit && s->root) {
                s->is_exit_due = true;
                s->root = 0;
        }
        if (news == BOX_NOBODY_LEFT)
                stubs_remove(s->k->order.image, true);
        if (news != BOX_NO_NEWS && s->is_exit_due) {
                s->is_exit_due = false;
                report_exit(s, s->box.status, &s->box.usage);
        }
        if (news == BOX_NOBODY_LEFT)
                stubs_forget(s->k->order.image);
        box_known(&s->box);
}

static void init_gone(struct keeping *s, int status, const struct rusage *usage)
{
        hear(s);
        s->box.init = 0;
        stubs_remove(s->k->order.image, true);
        if (s->is_exit_due)
                report_exit(s, s->box.status, &s->box.usage);
        else if (s->root) /* somebody killed the init, and the kernel the command with it */
                report_exit(s, WIFSIGNALED(status) ? status : SIGKILL, usage);
        s->is_exit_due = false;
        s->root = 0;
}

/* Reaps who can be reaped. False when no child is left; then *ret_any does not matter. */
static bool reap(struct keeping *s, bool *ret_any)
{
        *ret_any = false;
        for (;;) {
                int status;
                struct rusage usage;
                pid_t pid = sys_wait4(-1, &status, WNOHANG | __WALL, &usage);
                if (pid <= 0)
                        return pid != -ECHILD;
                *ret_any = true;
                if (pid == s->box.init && box_is_gone(&s->box, status))
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
        if (atomic_load_explicit(&s->k->kill_wanted, memory_order_acquire))
                s->is_killing = true; /* a spare may have taken the signal for something else */
        while (reap(s, &reaped)) {
                hear(s);
                signals_take(s);
                if (s->is_killing) {
                        killing_round(s);
                        wait_ms = reaped ? KILL_WAIT_FIRST_MS : MIN(wait_ms * 2, KILL_WAIT_LAST_MS);
                }

                struct timespec ts = { .tv_nsec = wait_ms * MS_NS };
                if (sys_sigtimedwait(WAKE_SET, s->is_killing ? &ts : NULL) == KEEPER_KILL)
                        s->is_killing = true;
        }
        signals_take(s);
}

/* The command runs or has failed: nobody reads the order any more, and its descriptors must not stay open here, or a
 * reader of the command's output would wait for us. */
static void order_release(struct keeper *k)
{
        for (int i = 0; i < 3; i++)
                sys_close(k->order.stdio[i]);
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
        struct child_start child = { .k = k, .parent = s->self, .ruleset = -1, .children = -1, .socket = -1 };
        long pid = -ECANCELED;
        if (atomic_load_explicit(&k->kill_wanted, memory_order_acquire))
                ;
        else if (k->order.image)
                pid = box_start(k, &s->box);
        else
                pid = (k->is_fork ? start_fork : start_shared)(k, &child);
        if (atomic_load_explicit(&k->waits, memory_order_relaxed) == KEEPER_GAVE_UP)
                return;

        struct spawn_report what = { .kind = SPAWN_STARTED, .number = k->number, .pid = (pid_t)pid };
        if (pid < 0) {
                k->failed_step = SPAWN_STEP_FORK;
                k->failed_errno = (int32_t)-pid;
        } else if (k->failed_step == SPAWN_STEP_NONE) {
                s->root = (pid_t)pid;
        }
        if (k->failed_step != SPAWN_STEP_NONE) {
                what.kind = SPAWN_FAILED;
                what.step = k->failed_step;
                what.os_errno = k->failed_errno;
                what.op = k->failed_op;
        }
        order_release(k);
        /* Who hears of the start may rely on the command alone holding its pipes. Normally long done. */
        while (!atomic_load_explicit(&k->is_handed_over, memory_order_acquire) && sys_getppid() == k->spawner)
                (void)sys_call0(SYS_sched_yield);
        report(s, &what);
        if (k->tells && what.kind == SPAWN_STARTED)
                (void)sys_kill(k->spawner, SPAWNER_LOOK);
}

void keeper_run(void *keeper)
{
        struct keeping s = { .k = keeper, .self = sys_getpid(), .box = { .socket = -1 } };

        bool is_spare = s.k->init_ends[0] >= 0;
        (void)sys_prctl(PR_SET_NAME, (unsigned long)(is_spare ? "fh-spare" : "fh-keeper"));
        (void)sys_prctl(PR_SET_PDEATHSIG, KEEPER_KILL);
        /* Without it orphans of the command would become the spawner's, which ends them. */
        int r = sys_prctl(PR_SET_CHILD_SUBREAPER, 1);
        /* Who died before PDEATHSIG was set sends nothing. */
        if (r < 0 || sys_getppid() != s.k->spawner)
                sys_exit(1);

        start(&s);
        keep(&s);
        bool was_used = atomic_load_explicit(&s.k->waits, memory_order_relaxed) == KEEPER_ORDERED;
        if (was_used && s.k->order.image)
                stubs_remove(s.k->order.image, true);
        if (s.k->leaf_fd >= 0 && sys_getppid() != s.k->spawner)
                cgroup_leaf_abandon(s.k->cgroup, s.k->leaf);
        sys_exit(0);
}

/* keeper: see keeper.h. From here down to execve nothing of libc is called: errno and thread-local storage are the
 * spawner's, and so is the heap. */
#include "proc/keeper.h"

#include "proc/spawn.h"
#include "base/sys.h"
#include "proc/tree.h"

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
#define CPU_SECONDS_MAX 1000000000 /* 31 years; the kernel counts nanoseconds and would overflow */

#define WAKE_SET (SYS_SIGNAL_BIT(SIGCHLD) | SYS_SIGNAL_BIT(KEEPER_LOOK) | SYS_SIGNAL_BIT(KEEPER_KILL))

/* What only the keeper needs; on its stack. */
struct keeping {
        struct keeper *k;
        pid_t self;
        pid_t root; /* 0 when reaped */
        bool is_killing;
};

/* ---- the child ---- */

static NORETURN void child_fail(struct keeper *k, enum spawn_step step, long r)
{
        k->failed_errno = (int32_t)-r;
        k->failed_step = step;
        sys_exit(127);
}

/* execvp's rules: what is not there, or may not be run, leads on to the next candidate. */
static NORETURN void child_exec(struct keeper *k)
{
        const struct keeper_order *o = &k->order;
        long r = -ENOENT;
        bool denied = false;
        for (char *const *program = o->candidates; *program; program++) {
                r = sys_call3(SYS_execve, *program, o->argv, o->env);
                if (r == -EACCES)
                        denied = true;
                else if (r != -ENOENT && r != -ENOTDIR)
                        child_fail(k, SPAWN_STEP_EXEC, r);
        }
        child_fail(k, SPAWN_STEP_EXEC, denied ? -EACCES : r);
}

/* A stricter limit that is there already stays: it cannot be raised, and keeps what was asked for. */
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
        if (l->open_files > 0)
                r = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, &files, NULL);
        else if (o->set_nofile)
                r = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, &o->nofile, NULL);
        if (r >= 0 && cpu > 0)
                r = limit_set(RLIMIT_CPU, cpu, cpu + 1); /* SIGXCPU comes first */
        if (r >= 0 && l->file_bytes > 0)
                r = limit_set(RLIMIT_FSIZE, l->file_bytes, l->file_bytes);
        /* Last: what we run in ourselves may be larger. */
        if (r >= 0 && l->memory_bytes > 0)
                r = limit_set(RLIMIT_AS, l->memory_bytes, l->memory_bytes);
        return r;
}

struct child_start {
        struct keeper *k;
        pid_t keeper_pid;
        bool enters_leaf; /* by itself */
};

static NORETURN void child_run(const struct child_start *start)
{
        struct keeper *k = start->k;
        const struct keeper_order *o = &k->order;

        /* The spawner ends what a killed keeper leaves. This is for the case that both are killed at once. */
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != start->keeper_pid)
                sys_exit(127);

        if (start->enters_leaf) {
                int entered = cgroup_leaf_enter(k->leaf_fd);
                if (entered < 0 && o->needs_leaf)
                        child_fail(k, SPAWN_STEP_LIMITS, entered);
        }

        long r = sys_call0(SYS_setsid);
        if (r == -EPERM)
                r = sys_call2(SYS_setpgid, 0, 0);
        if (r < 0)
                child_fail(k, SPAWN_STEP_SESSION, r);

        for (int i = 0; i < 3; i++) {
                r = sys_call3(SYS_dup3, o->stdio[i], i, 0);
                if (r < 0)
                        child_fail(k, SPAWN_STEP_STDIO, r);
        }
        /* Also puts our group into the foreground. */
        if (o->is_tty && (r = sys_call3(SYS_ioctl, 0, TIOCSCTTY, 0)) < 0)
                child_fail(k, SPAWN_STEP_PTY, r);

        r = sys_call1(SYS_chdir, o->cwd);
        if (r < 0)
                child_fail(k, SPAWN_STEP_CWD, r);

        /* Every descriptor is close-on-exec from birth; this is the second lock on that door. Not close(): the
         * pipe of a forked keeper must live until execve. Kernels before 5.11 do without. */
        (void)sys_call3(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);

        r = child_limit(o);
        if (r < 0)
                child_fail(k, SPAWN_STEP_LIMITS, r);

        /* Dispositions are the default since the spawner began. */
        (void)sys_sigmask(0);
        child_exec(k);
}

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
static long start_vfork(struct keeper *k, struct child_start *start)
{
        if (k->leaf_fd >= 0) {
                struct sys_clone_args args = {
                        .flags = CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | CLONE_INTO_CGROUP,
                        .parent_tid = (uintptr_t)&k->root,
                        .exit_signal = SIGCHLD,
                        .cgroup = (uint64_t)k->leaf_fd,
                };
                long r = sys_clone3_onto(&args, k->child_stack, child_entry, start);
                if (!is_worth_entering(r))
                        return r;
                start->enters_leaf = true;
        }
        return sys_clone_onto(CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | SIGCHLD, k->child_stack,
                              (pid_t *)&k->root, child_entry, start);
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
        while (reap(s, &reaped)) {
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
        struct child_start child = { .k = k, .keeper_pid = s->self };
        long pid = -ECANCELED;
        if (!atomic_load_explicit(&k->kill_wanted, memory_order_acquire))
                pid = (k->is_fork ? start_fork : start_vfork)(k, &child);

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
        }
        order_release(k);
        /* Who hears of the start may rely on the command alone holding its pipes. Normally long done. */
        while (!atomic_load_explicit(&k->is_handed_over, memory_order_acquire) && sys_getppid() == k->spawner)
                (void)sys_call0(SYS_sched_yield);
        report(s, &what);
}

void keeper_run(void *keeper)
{
        struct keeping s = { .k = keeper, .self = sys_getpid() };

        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-keeper");
        (void)sys_prctl(PR_SET_PDEATHSIG, KEEPER_KILL);
        /* Without it orphans of the command would become the spawner's, which ends them. */
        int r = sys_prctl(PR_SET_CHILD_SUBREAPER, 1);
        /* Who died before PDEATHSIG was set sends nothing. */
        if (r < 0 || sys_getppid() != s.k->spawner)
                sys_exit(1);

        start(&s);
        keep(&s);
        if (s.k->leaf_fd >= 0 && sys_getppid() != s.k->spawner)
                cgroup_leaf_abandon(s.k->cgroup, s.k->leaf);
        sys_exit(0);
}

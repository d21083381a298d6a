/* child: see child.h. */
#include "proc/child.h"

#include "base/sys.h"
#include "proc/spawn.h"
#include "sandbox/enter.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define CPU_SECONDS_MAX 1000000000 /* 31 years; the kernel counts nanoseconds and would overflow */

NO_ASAN void child_fail(struct keeper *k, enum spawn_step step, long r)
{
        k->failed_op = ENTER_NO_OP;
        k->failed_errno = (int32_t)-r;
        k->failed_step = step;
        sys_exit(127);
}

void child_note(struct keeper *k, const struct enter_failure *why)
{
        k->failed_op = why->op;
        k->failed_errno = why->os_errno;
        k->failed_step = SPAWN_STEP_SANDBOX + why->step;
}

/* execvp's rules: what is not there, or may not be run, leads on to the next candidate. */
static NORETURN NO_ASAN void child_exec(struct keeper *k)
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

NO_ASAN void child_run(const struct child_start *start)
{
        struct keeper *k = start->k;
        const struct keeper_order *o = &k->order;

        /* The spawner ends what a killed keeper leaves. This is for the case that both are killed at once. */
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != start->parent)
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

        /* The kernel tells the keeper which process outside sent this: numbers in here mean nothing there. */
        if (start->socket >= 0 && (r = sys_send(start->socket, &r, 1, MSG_NOSIGNAL)) < 0)
                child_fail(k, SPAWN_STEP_FORK, r);
        struct enter_failure why;
        if ((start->image && enter_confine(start->image, &why) < 0) ||
            enter_landlock(start->ruleset, &why) < 0) {
                child_note(k, &why);
                sys_exit(127);
        }

        /* Dispositions are the default since the spawner began. */
        (void)sys_sigmask(0);
        child_exec(k);
}

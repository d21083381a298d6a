/* broker_outside: programs that run outside of the sandbox in the place of their callers: how they start, and what ends them. */
#include "intercept/broker_internal.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/sys.h"
#include "intercept/finish.h"
#include "intercept/wrapped.h"
#include "keeper/keeper_shared.h"

#include <errno.h>
#include <linux/ioctl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define MS_US 1000ULL

/* Signals that stop a process: they have no effect on a caller that waits inside of execve, and so none on its program. */
#define STOP_SIGNALS                                                                   \
        (SYS_SIGNAL_BIT(SIGSTOP) | SYS_SIGNAL_BIT(SIGTSTP) | SYS_SIGNAL_BIT(SIGTTIN) | \
         SYS_SIGNAL_BIT(SIGTTOU))

/* The kernel's struct pidfd_info of Linux 6.13. Its last member is the exit code since 6.15, and was unused before. */
struct pidfd_info_exit {
        uint64_t mask, cgroup;
        uint32_t ids[11];
        int32_t exit_code;
};
#define PIDFD_INFO_HAS_EXIT (1ULL << 3)
#define PIDFD_GET_INFO_EXIT _IOWR(0xFF, 11, struct pidfd_info_exit)

static void children_add(struct broker *b)
{
        b->outside++;
        atomic_fetch_add_explicit(&b->start.keeper->broker_children, 1, memory_order_acq_rel);
}

/* Counts a program outside as ended. The keeper may be waiting for the last one, so it is woken then. */
static void children_drop(struct broker *b)
{
        b->outside--;
        if (atomic_fetch_sub_explicit(&b->start.keeper->broker_children, 1, memory_order_acq_rel) == 1)
                (void)sys_kill(sys_getpid(), KEEPER_LOOK);
}

static void request_start(struct broker *b, struct request *r)
{
        const char *why = "it cannot be started";
        struct intercept_exec exec = request_exec(r);
        struct slice path = intercept_path(&b->arena, &exec);
        children_add(b); /* first: the keeper must not end meanwhile */
        int e = escalate_start(&r->caller, path, b->start.keeper, r->pidfd, &r->outside, &why);
        if (e < 0) {
                children_drop(b);
                return e == -E2BIG ? request_fail(b, r, e) : request_deny(b, r, slice_from_str(why));
        }
        broker_count(&b->start.keeper->escalated);
        request_wait(b, r, REQUEST_OUTSIDE);
}

void request_escalate(struct broker *b, struct request *r)
{
        int e = request_open(r);
        if (e == 0)
                e = caller_read_cwd(&r->caller);
        /* A caller that is traced could not be ended afterwards. */
        if (e < 0 || (r->caller.status.tracer && !r->caller.wrapped)) {
                broker_count(&b->start.keeper->denied);
                return request_fail(b, r, -EACCES);
        }
        if (b->outside >= LIMIT_INTERCEPT_ESCALATED)
                return request_deny(b, r, S("too many programs run outside of the sandbox"));
        if (!r->caller.wrapped)
                return request_start(b, r);
        request_want_descriptors(r);
        request_wait(b, r, REQUEST_GIVEN);
}

void request_given(struct broker *b, struct request *r)
{
        if (r->failure)
                return request_fail(b, r, r->failure);
        if (b->outside >= LIMIT_INTERCEPT_ESCALATED)
                return request_deny(b, r, S("too many programs run outside of the sandbox"));
        request_start(b, r);
}

static bool death_from_pidfd(int pidfd, int *ret_status)
{
        struct pidfd_info_exit info = { .mask = PIDFD_INFO_HAS_EXIT };
        if (ioctl(pidfd, PIDFD_GET_INFO_EXIT, &info) < 0 || !(info.mask & PIDFD_INFO_HAS_EXIT))
                return false;
        *ret_status = info.exit_code;
        return true;
}

/* Reads from /proc how the caller has ended. Until its parent has waited for it, its number cannot belong to another process. */
static bool death_from_proc(const struct request *r, int *ret_status)
{
        _buf_ struct buf text = BUF_INIT(4096);
        return caller_proc_read(r->caller.status.process, "stat", &text) == 0 &&
               proc_stat_parse_exit(buf_slice(&text), ret_status) == 0 && sys_pidfd_signal(r->pidfd, 0) == 0;
}

/* Returns the signal of which the caller died, or SIGTERM if that cannot be found out: older kernels do not tell once the parent of the
 * caller has waited for it. */
static int caller_death(const struct request *r)
{
        int status;
        bool is_known = death_from_pidfd(r->pidfd, &status) || death_from_proc(r, &status) ||
                        death_from_pidfd(r->pidfd, &status);
        return is_known && WIFSIGNALED(status) ? WTERMSIG(status) : SIGTERM;
}

void outside_lose_caller(struct request *r)
{
        escalated_signal(&r->outside, caller_death(r));
        escalated_signal(&r->outside, SIGCONT);
        r->deadline_us = clock_mono_us() + LIMIT_INTERCEPT_END_MS * MS_US;
        r->state = REQUEST_ENDING;
}

void outside_ended(struct broker *b, struct request *r)
{
        if (r->state == REQUEST_ENDING)
                escalated_signal(
                        &r->outside,
                        SIGKILL); /* for the rest of its process group, whose number is free after escalated_reap */
        int status = escalated_reap(&r->outside);
        children_drop(b);
        if (r->state == REQUEST_OUTSIDE && r->caller.wrapped)
                (void)wrapped_result(r->caller.wrapped, status);
        else if (r->state == REQUEST_OUTSIDE)
                finish_with_status(&r->caller, r->pidfd, status);
        request_end(b, r);
}

void outside_reported(struct broker *b, struct request *r)
{
        int e = escalated_report(&r->outside);
        if (e == 0 || r->state != REQUEST_OUTSIDE)
                return;
        (void)escalated_reap(&r->outside);
        children_drop(b);
        request_fail(b, r, e);
}

void outside_pass_signals_on(struct request *r)
{
        const struct proc_status *s = &r->caller.status;
        uint64_t due = s->pending &
                       ~(s->blocked | s->ignored | STOP_SIGNALS | SYS_SIGNAL_BIT(SIGCHLD) | r->passed_on);
        for (int signo = 1; signo <= 64; signo++)
                if (due & SYS_SIGNAL_BIT(signo))
                        escalated_signal(&r->outside, signo);
        r->passed_on |= due;
}

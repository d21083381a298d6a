/* finish: ends a process that waits inside of execve (finish.h). */
#include "intercept/finish.h"

#include "base/sys.h"
#include "keeper/intercepted.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#ifndef NT_ARM_SYSTEM_CALL
#define NT_ARM_SYSTEM_CALL 0x404
#endif

#define STOPS_MAX 64 /* stops for signals, before the one that was asked for */

/* The signals that make a core dump. Where memory is shared, older kernels end all processes that have it. */
#define CORE_SIGNALS                                                                   \
        (SYS_SIGNAL_BIT(SIGQUIT) | SYS_SIGNAL_BIT(SIGILL) | SYS_SIGNAL_BIT(SIGTRAP) |  \
         SYS_SIGNAL_BIT(SIGABRT) | SYS_SIGNAL_BIT(SIGBUS) | SYS_SIGNAL_BIT(SIGFPE) |   \
         SYS_SIGNAL_BIT(SIGSEGV) | SYS_SIGNAL_BIT(SIGXCPU) | SYS_SIGNAL_BIT(SIGXFSZ) | \
         SYS_SIGNAL_BIT(SIGSYS))

/* Attaches to the caller and lets its execve fail. Returns 0 when the caller has stopped on its way out of the kernel; 1 when it has
 * died; or -errno. */
static int stop(const struct caller *c)
{
        if (ptrace(PTRACE_SEIZE, c->thread, 0, 0) < 0) {
                int r = -errno;
                (void)caller_fail(c, -EACCES);
                return r == -ESRCH ? 1 : r;
        }
        (void)ptrace(PTRACE_INTERRUPT, c->thread, 0, 0);
        /* When the notification is not valid any more the thread can be another one, which has the same number: it is let go. */
        bool is_there = caller_fail(c, -EACCES) == 0;
        for (int i = 0; i < STOPS_MAX; i++) {
                int status;
                pid_t pid = intercepted_tracee_wait(c->thread, &status, 0);
                if (pid == -EINTR)
                        continue;
                if (pid != c->thread || !WIFSTOPPED(status))
                        return 1;
                if (status >> 16 == PTRACE_EVENT_STOP) {
                        if (is_there)
                                return 0;
                        (void)ptrace(PTRACE_DETACH, c->thread, 0, 0);
                        return 1;
                }
                (void)ptrace(PTRACE_CONT, c->thread, 0, WSTOPSIG(status));
        }
        (void)ptrace(PTRACE_DETACH, c->thread, 0, 0);
        return -EACCES;
}

/* Detaches. A process that was killed meanwhile cannot be detached from; its parent learns of its death only when the tracer has waited
 * for it. */
static void let_go(pid_t thread)
{
        int status;
        while (ptrace(PTRACE_DETACH, thread, 0, 0) < 0) {
                pid_t pid = intercepted_tracee_wait(thread, &status, 0);
                if (pid != -EINTR && (pid != thread || !WIFSTOPPED(status)))
                        return;
        }
}

#if defined(__x86_64__)

/* The instruction `syscall` has two bytes. */
static int exit_prepare(pid_t thread, int code)
{
        struct user_regs_struct regs;
        if (ptrace(PTRACE_GETREGS, thread, 0, &regs) < 0)
                return -errno;
        regs.rip -= 2;
        regs.rax = SYS_exit_group;
        regs.orig_rax = ~0ULL; /* no system call is to be restarted */
        regs.rdi = (unsigned)code;
        return ptrace(PTRACE_SETREGS, thread, 0, &regs) < 0 ? -errno : 0;
}

#elif defined(__aarch64__)

/* The instruction `svc #0` has four bytes. When a signal has woken the caller before our answer did, the kernel has moved pc back to it
 * already, to restart the call: x0 is then an argument of execve again, and not the error that we have answered. */
static int exit_prepare(pid_t thread, int code)
{
        struct user_regs_struct regs;
        struct iovec part = { &regs, sizeof(regs) };
        int none = -1; /* no system call is to be restarted */
        struct iovec call = { &none, sizeof(none) };
        if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &part) < 0)
                return -errno;
        if (regs.regs[0] == (uint64_t)-EACCES)
                regs.pc -= 4;
        regs.regs[8] = SYS_exit_group;
        regs.regs[0] = (unsigned)code;
        if (ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &part) < 0)
                return -errno;
        return ptrace(PTRACE_SETREGSET, thread, NT_ARM_SYSTEM_CALL, &call) < 0 ? -errno : 0;
}

#else
#error "finish.c knows x86-64 and aarch64"
#endif

/* Blocks all signals but one: those that wait for the caller were meant for its program, which has had them, or has not run. */
static void signals_block(pid_t thread, int but)
{
        uint64_t set = but ? ~SYS_SIGNAL_BIT(but) : ~UINT64_C(0);
        (void)ptrace(PTRACE_SETSIGMASK, thread, sizeof(set), &set);
}

int finish_with_code(const struct caller *c, int code)
{
        int r = stop(c);
        if (r != 0)
                return r < 0 ? r : 0;
        r = exit_prepare(c->thread, code);
        signals_block(c->thread, 0);
        let_go(c->thread);
        return r == -ESRCH ? 0 : r;
}

/* Returns whether the signal would end the caller, and nobody else. */
static bool is_deadly(const struct caller *c, int signo)
{
        uint64_t bit = SYS_SIGNAL_BIT(signo);
        if (signo == SIGKILL)
                return true;
        if (((c->status.blocked | c->status.ignored | c->status.caught) & bit) ||
            c->status.process != c->thread)
                return false;
        return !(CORE_SIGNALS & bit) || !caller_is_shared(c);
}

void finish_with_status(const struct caller *c, int pidfd, int wait_status)
{
        int signo = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
        int code = signo ? 128 + signo : WEXITSTATUS(wait_status);
        bool is_signalled = signo && is_deadly(c, signo);
        int r = stop(c);
        if (r > 0)
                return;
        signals_block(c->thread, is_signalled ? signo : 0);
        if (r < 0 || exit_prepare(c->thread, code) < 0) {
                (void)sys_pidfd_signal(pidfd, SIGKILL);
        } else if (is_signalled) {
                struct rlimit core;
                if (sys_call4(SYS_prlimit64, c->thread, RLIMIT_CORE, NULL, &core) == 0) {
                        core.rlim_cur = 0;
                        (void)sys_call4(SYS_prlimit64, c->thread, RLIMIT_CORE, &core, NULL);
                }
                (void)sys_pidfd_signal(pidfd, signo);
        }
        let_go(c->thread);
}

/* spare: see spare.h. */
#include "proc/spare.h"

#include "base/clock.h"
#include "base/sys.h"
#include "sandbox/enter.h"

#include <sched.h>
#include <sys/mman.h>

#define STACK_BYTES (16 * 1024)

/* ---- the process ---- */

/* Raw system calls only: its memory is the spawner's. All signals are blocked, so that only SIGKILL ends it. */
static NORETURN NO_ASAN void spare_run(struct spare *s)
{
        const struct image ids = { .needs_user = 1,
                                   .uid = (uint32_t)sys_call0(SYS_geteuid),
                                   .gid = (uint32_t)sys_call0(SYS_getegid) };
        struct enter_failure why;
        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-spare");
        long r = sys_call1(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC);
        if (r < 0 || enter_ids(&ids, &why) < 0 || enter_network(&why) < 0)
                sys_exit(1);
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != s->spawner)
                sys_exit(1);
        atomic_store_explicit(&s->is_ready, true, memory_order_release);
        for (;;)
                (void)sys_sigtimedwait(0, NULL);
}

static NO_ASAN void spare_entry(void *arg)
{
        spare_run(arg);
}

/* ---- the spawner ---- */

void spare_want(struct spare *s)
{
        if (s->pid > 0)
                return;
        if (!s->stack) {
                void *p = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (p == MAP_FAILED)
                        return;
                s->stack = p;
        }
        s->spawner = sys_getpid();
        s->since_ms = clock_mono_ms();
        s->is_taken = s->is_dropped = false;
        atomic_store_explicit(&s->is_ready, false, memory_order_relaxed);
        long pid = sys_clone_onto(CLONE_VM | SIGCHLD, s->stack + STACK_BYTES, NULL, spare_entry, s);
        s->pid = pid > 0 ? (pid_t)pid : 0;
}

int spare_take(struct spare *s)
{
        if (s->pid <= 0 || s->is_taken || s->is_dropped ||
            !atomic_load_explicit(&s->is_ready, memory_order_acquire))
                return -1;
        int fd = sys_pidfd_open(s->pid); /* nobody but us reaps it: it is still what it was */
        s->is_taken = fd >= 0;
        return fd < 0 ? -1 : fd;
}

void spare_drop(struct spare *s)
{
        s->is_dropped = true;
        if (s->pid > 0)
                (void)sys_kill(s->pid, SIGKILL);
}

int spare_wait_ms(const struct spare *s)
{
        if (s->pid <= 0 || s->is_taken || s->is_dropped)
                return -1;
        uint64_t age_ms = clock_mono_ms() - s->since_ms;
        return age_ms >= SPARE_IDLE_MS ? 0 : (int)(SPARE_IDLE_MS - age_ms);
}

bool spare_reaped(struct spare *s, pid_t pid)
{
        if (pid != s->pid)
                return false;
        s->pid = 0;
        if (s->is_taken && !s->is_dropped)
                spare_want(s);
        return true;
}

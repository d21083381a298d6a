/* urgent: asks the scheduler to run a process or thread as soon as it is woken, however busy the machine is.
 *
 * For processes and threads that nearly always sleep and must act at once when they are woken. They ask for these, in this
 * order, and take the first that the kernel grants:
 *
 *     a real-time policy     needs CAP_SYS_NICE or RLIMIT_RTPRIO; runs before all processes without one, in every cgroup
 *     nice -20               needs CAP_SYS_NICE or RLIMIT_NICE
 *     a short slice          needs Linux 6.12 and no privilege: no more processor time than others get, but sooner
 *
 * Only the raw system calls of base/sys.h are used.
 */
#pragma once

#include "base/sys.h"

#include <sched.h>

#define URGENT_NICE (-20)
#define URGENT_SLICE_NS 100000 /* the shortest that the kernel grants */

/* The scheduling of a process before urgent_begin, in the form of the kernel's struct sched_attr. */
struct urgent_before {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
};

enum urgent { URGENT_NOT, URGENT_SHORT, URGENT_NICER, URGENT_REAL_TIME };

#define URGENT_PRIORITY 1 /* the lowest of the real-time priorities */

/* Gives the process a real-time policy. `pid` 0 means the caller, here and below. Returns 0 or -errno. */
static inline int urgent_real_time(pid_t pid, uint32_t priority)
{
        const struct urgent_before a = { .size = sizeof(a), .policy = SCHED_FIFO, .priority = priority };
        return (int)sys_call3(SYS_sched_setattr, pid, &a, 0);
}

/* Makes the process urgent, with nothing stronger than `most`: a weaker means is right for a process that others can keep busy.
 * Returns what was granted. A process that already has a scheduling policy of its own keeps it. */
static inline enum urgent urgent_begin(pid_t pid, enum urgent most, struct urgent_before *ret)
{
        *ret = (struct urgent_before){ .size = 0 };
        if (sys_call4(SYS_sched_getattr, pid, ret, sizeof(*ret), 0) < 0 ||
            (ret->policy != SCHED_OTHER && ret->policy != SCHED_BATCH))
                return URGENT_NOT;
        if (most >= URGENT_REAL_TIME && urgent_real_time(pid, URGENT_PRIORITY) == 0)
                return URGENT_REAL_TIME;
        struct urgent_before a = *ret;
        a.runtime = URGENT_SLICE_NS;
        a.nice = URGENT_NICE;
        if (most >= URGENT_NICER && sys_call3(SYS_sched_setattr, pid, &a, 0) == 0)
                return URGENT_NICER;
        a.nice = ret->nice;
        return sys_call3(SYS_sched_setattr, pid, &a, 0) == 0 ? URGENT_SHORT : URGENT_NOT;
}

/* Gives the process the priority that it had before urgent_begin. */
static inline void urgent_end(enum urgent got, const struct urgent_before *before)
{
        if (got != URGENT_NOT)
                (void)sys_call3(SYS_sched_setattr, 0, before, 0);
}

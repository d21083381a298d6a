/* escalate_internal: what the broker has gathered for a program outside of the sandbox, for the child that executes it. */
#pragma once

#include "base/limits.h"
#include "base/sys.h"

#define ESCALATE_LIMITS 16 /* RLIM_NLIMITS */

/* The kernel's struct sched_attr, in its first version. */
struct escalate_schedule {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
};

struct escalate_order {
        pid_t parent;
        int leaf; /* the cgroup that the child has to enter by itself; or -1 */
        int report;
        int cwd;
        int program; /* a descriptor, for execveat of a descriptor; or -1 */
        int flags;   /* of execveat */
        const char *path;
        char *const *argv;
        char *const *env;
        char *const *shell_argv; /* for a script that names no interpreter */
        uint32_t umask;
        uint64_t ignored, blocked;
        struct escalate_schedule schedule; /* size 0: unknown */
        struct rlimit limits[ESCALATE_LIMITS];
        uint32_t has_limit; /* a bit for each */
        int first_free;     /* above all numbers of `descriptors` */
        size_t count;
        struct {
                int from, to;
        } descriptors[LIMIT_INTERCEPT_DESCRIPTORS];
};

/* The child, from fork to execve. Changes *o. */
NORETURN void escalate_child(struct escalate_order *o);

/* child: the command's own process, from clone to execve. Raw system calls only: it shares the memory of another process. */
#pragma once

#include "keeper/keeper_shared.h"
#include "sandbox/enter.h"

struct child_start {
        struct keeper *k;
        pid_t parent;     /* the process that must still be the parent; 1 for the init of a sandbox */
        bool enters_leaf; /* the child has to enter its cgroup itself */
        const struct image *image; /* the sandbox, when the child has to confine itself; else NULL */
        struct enter_stdio io;     /* stdin, stdout and stderr of the command; all above 2 */
        int ruleset;               /* the Landlock ruleset, or -1 */
        int children;              /* for the init: the file in which the kernel lists its children, or -1 */
        const uint32_t *may_run;   /* a futex: not 0 once the sandbox has been checked; NULL: do not wait */
        int socket; /* the child sends a byte on it, so that the keeper learns the child's pid; and with it the listener of an
                     * intercepted command (sandbox/exec_notify.h). -1: none, and the command is not intercepted */
};

/* Sets the calling process up and executes the program. When a step fails, notes the failure in the keeper's struct, and exits. */
NORETURN void child_run(void *child_start);
/* Notes the step that failed, and its error `r` (-errno), in the keeper's struct, and exits. */
NORETURN void child_fail(struct keeper *k, enum spawn_step step, long r);
/* Moves the calling process into the cgroup of its command; the start fails when that is impossible and the command
 * needs a cgroup. */
void child_enter_leaf(struct keeper *k);
/* Returns the stdin, stdout and stderr of the order. */
NODISCARD struct enter_stdio child_stdio(const struct keeper_order *o);
/* Notes in the keeper's struct the failure that a function enter_* has reported. */
void child_note(struct keeper *k, const struct enter_failure *why);

/* child: the command's own process, from clone to execve. Raw system calls only: its memory is somebody else's. */
#pragma once

#include "proc/keeper.h"

struct image;

struct child_start {
        struct keeper *k;
        pid_t parent;              /* who must still be there; 1 for the init of a sandbox */
        bool enters_leaf;          /* the cgroup, by itself */
        const struct image *image; /* the sandbox that it is in and has to lock behind itself, or NULL */
        int ruleset;               /* Landlock's, or -1 */
        int children;              /* of the init: where the kernel lists its children, or -1 */
        int socket;                /* says who we are to the keeper, outside; or -1 */
};

/* Leaves failed_step and failed_errno in the keeper's struct when it fails. */
NORETURN void child_run(const struct child_start *start);
NORETURN void child_fail(struct keeper *k, enum spawn_step step, long r);
/* For sandboxes: what enter_* said. */
struct enter_failure;
void child_note(struct keeper *k, const struct enter_failure *why);

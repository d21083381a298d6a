/* escalate: runs a program outside of the sandbox in the place of a caller that waits inside of execve.
 *
 * The program is what the broker has copied: nothing is read from the caller any more that decides what is run. It gets what execve would
 * have left it: descriptors, cwd, environment, umask, limits, scheduling, ignored and blocked signals. It begins a session, and so a process
 * group, of its own: a process cannot enter the session of another. So it can use the caller's terminal by its descriptors, but has
 * no controlling terminal; what the terminal sends to the foreground reaches the caller, and the broker passes that on.
 *
 * The program is a child of the broker's thread, and dies with it. No filter and no sandbox are on it.
 */
#pragma once

#include "intercept/caller.h"

struct keeper;

struct escalated {
        pid_t pid; /* also of its process group */
        int pidfd;
        int report; /* readable once execve is over: escalated_report */
};

#define ESCALATED_NONE ((struct escalated){ .pid = 0, .pidfd = -1, .report = -1 })

/* Starts the program. `path` is the absolute path that was decided about. The caller of this function has read the status and the
 * cwd of *c. Returns 0; or -errno, with a sentence for people in *ret_why. */
NODISCARD int escalate_start(struct caller *c, struct slice path, const struct keeper *keeper, int pidfd,
                             struct escalated *ret, const char **ret_why);
/* Reads, when `report` is readable, how execve went, and closes it. Returns 0 or the -errno of execve. */
NODISCARD int escalated_report(struct escalated *e);
/* Sends a signal to the process group. */
void escalated_signal(const struct escalated *e, int signo);
/* Waits for the program, which has exited, and releases it. Returns its wait status. */
int escalated_reap(struct escalated *e);

/* runner: runs one command through a spawner of its own, for subcommands: no server, no loop.
 *
 * The caller polls spawn_fd(r->spawner), for spawn_wait_ms at most, and calls spawn_on_ready, until `is_over`. The members
 * of the struct say what the spawner has reported. However this process ends, the spawner ends the command and everything
 * below it.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "proc/spawn.h"

#define RUNNER_NUMBER 1 /* the number of the command, for spawn_signal and spawn_kill */

struct runner {
        struct spawner *spawner;
        bool has_started;
        bool has_failed; /* the command did not start: `step`, `os_errno` and `op` say why */
        bool has_exited; /* `status` is that of wait(2) */
        bool is_over;    /* the command and everything below it is gone */
        int status;
        const char *step;
        int os_errno;
        uint32_t op;
};

/* Forks the spawner; must be called before threads exist. The spawner gets a process group of its own: signals that a terminal or
 * timeout(1) sends to our group reach only us, and we pass them on. */
NODISCARD int runner_open(struct runner *r, struct err *err);
NODISCARD int runner_start(struct runner *r, const struct command_spec *command, const int stdio[static 3],
                           struct err *err);
/* Waits until `is_over` or the timeout. Returns `is_over`. */
NODISCARD bool runner_wait(struct runner *r, int timeout_ms);
/* Ends what is left and waits for the spawner, bounded in time. A zeroed or closed runner is fine. */
void runner_close(struct runner *r);

/* Returns the paths that execvp would try for this name, as a NULL-terminated list: the name itself when it has a slash,
 * otherwise one path for each directory in `path`. */
NODISCARD const char **runner_candidates(struct arena *a, const char *program, const char *path);

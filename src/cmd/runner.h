/* runner: one command through a spawner of its own, for command lines: no server, no loop.
 *
 * The caller polls spawn_fd(r->spawner) and calls spawn_on_ready, until `is_over`; what was heard stands in the struct.
 * Whatever ends us, the spawner ends the command and everything below it.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "proc/spawn.h"

#define RUNNER_NUMBER 1 /* of the command, for spawn_signal and spawn_kill */

struct runner {
        struct spawner *spawner;
        bool has_started;
        bool has_failed; /* nothing ran: `step`, `os_errno` and `op` say why */
        bool has_exited; /* `status` is that of wait(2) */
        bool is_over;    /* nobody is left below us */
        int status;
        const char *step;
        int os_errno;
        uint32_t op;
};

/* Forks the spawner: before threads exist. It gets a process group of its own, so that what a terminal or timeout(1) sends
 * to ours is for us alone to pass on. */
NODISCARD int runner_open(struct runner *r, struct err *err);
NODISCARD int runner_start(struct runner *r, const struct spawn_request *req, struct err *err);
/* Waits until nobody is left, or the time is over; true when nobody is. */
NODISCARD bool runner_wait(struct runner *r, int timeout_ms);
/* Ends what is left and waits, bounded, for the spawner to go. A zeroed or a closed one is fine. */
void runner_close(struct runner *r);

/* What execvp would try for this name: itself when it has a slash, else every directory of the list. NULL-terminated. */
NODISCARD const char **runner_candidates(struct arena *a, const char *program, const char *path);

/* companion: the command that runs while a door is open.
 *
 * It has our terminal and is in our process group: what is typed reaches it as if it had been started alone. Signals that were sent to
 * us by a program are passed on to it.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/types.h>

struct companion {
        pid_t pid;
        sigset_t mask; /* the signals that were blocked before companion_watch_signals */
};

/* Blocks the signals that end a program, and SIGCHLD. Returns a signalfd for them, or -errno with *err filled. */
NODISCARD int companion_watch_signals(struct companion *c, struct err *err);
/* Starts the command with CODEX_EXEC_SERVER_URL set to `url`, and without FARHAND_TOKEN and the variable `without` (may be NULL).
 * Returns 0, or an exit code with *err filled. */
NODISCARD int companion_start(struct companion *c, char **argv, const char *url, const char *without,
                              struct err *err);
/* Handles a signal that the signalfd has reported. Returns whether the command has ended; *ret_code is then its exit code, 128 + N after
 * the signal N. */
NODISCARD bool companion_on_signal(const struct companion *c, const struct signalfd_siginfo *info,
                                   int *ret_code);

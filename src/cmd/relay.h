/* relay: connects the terminal of the user with the terminal that the sandboxed command gets.
 *
 * A sandboxed command never gets the terminal of the user: it could read what is typed later, at the prompt of the shell.
 * Each of our three descriptors that is a terminal is replaced by a new terminal, and bytes are carried between the two.
 * Descriptors of other kinds are passed on as they are.
 *
 *     stdin and stdout are terminals   raw: every key goes to the terminal of the command, which turns some into signals
 *     only stdin is                    line by line: a pager may be in the foreground, and its keys are not for the command
 *     only stdout or stderr is         output only
 *
 * In the background nothing is read and no mode is changed; both are done when we come to the foreground. The modes are
 * restored however we end: when we are killed, another process restores them, which waits for our end.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "cmd/tail.h"

#include <poll.h>
#include <sys/types.h>
#include <termios.h>

#define RELAY_FDS 3
#define RELAY_OUT_BYTES 65536
#define RELAY_IN_BYTES 4096

struct relay {
        int stdio[3];      /* the descriptors for the command, borrowed */
        bool is_tty;       /* stdio[0] is a terminal that shall control the command */
        struct tail *tail; /* gets what the command prints; borrowed, may be NULL */

        int master, slave;  /* the ends of the command's terminal; -1: it has none */
        int in, out;        /* the terminal of the user, opened again; -1: not open */
        bool wants_raw;     /* the terminal of the user shall be raw while we are in the foreground */
        bool is_raw;        /* the terminal of the user is raw now */
        bool is_foreground; /* we were in the foreground when relay_prepare last checked */
        bool is_resting;    /* another process has the terminal: `in` is not polled for a while */
        bool is_ended;      /* all processes have closed the terminal of the command */
        struct termios before, raw;
        pid_t restorer;
        int restorer_pipe;

        size_t to_user_off, to_user_n;
        size_t to_command_off, to_command_n;
        char to_user[RELAY_OUT_BYTES];
        char to_command[RELAY_IN_BYTES];
};

/* Makes a relay that does nothing until relay_open. */
void relay_init(struct relay *r, struct tail *tail);
/* Opens the terminals. When none of our descriptors is a terminal the relay does nothing. Returns 0, or -errno with err filled
 * (step "pty"). */
NODISCARD int relay_open(struct relay *r, struct err *err);
/* Before poll: checks whether we are in the foreground, and fills the array. Returns the timeout for poll, -1 for none. */
NODISCARD int relay_prepare(struct relay *r, struct pollfd fds[RELAY_FDS]);
/* After poll: carries bytes. */
void relay_carry(struct relay *r, const struct pollfd fds[RELAY_FDS]);
/* Gives the command's terminal the size of the user's window. To be called when that size has changed. */
void relay_resize(struct relay *r);
/* Restores the modes of the user's terminal before we are stopped. relay_prepare makes it raw again. */
void relay_restore(struct relay *r);
/* After the last process of the sandbox is gone: carries the rest of the output. Bounded in time. */
void relay_drain(struct relay *r);
/* Restores the modes and closes our descriptors. */
void relay_close(struct relay *r);

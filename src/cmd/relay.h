/* relay: between the user's terminal and a terminal of the command's own.
 *
 * A command in a sandbox never gets the user's terminal itself: it could read what is typed there later, at the shell's
 * prompt. Each of our three descriptors that is a terminal is replaced by a new one, and bytes are carried between the two;
 * the others are handed over as they are.
 *
 *     stdin and stdout are terminals   raw: every key goes to the command's terminal, which makes signals of them
 *     only stdin is                    line by line: a pager or a shell may have the terminal, and its keys are not ours
 *     only stdout or stderr is         output only
 *
 * In the background nothing is read and no mode is changed; that is made up for when we come to the foreground. The modes
 * come back however we end: when we are killed, by a process that waits for that.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"

#include <poll.h>
#include <sys/types.h>
#include <termios.h>

#define RELAY_FDS 3
#define RELAY_OUT_BYTES 65536
#define RELAY_IN_BYTES 4096

struct relay {
        int stdio[3]; /* for the command, borrowed */
        bool is_tty;  /* stdio[0] is a terminal that shall control the command */

        int master, slave;  /* of the command's terminal; -1: it has none */
        int in, out;        /* of the user's terminal, descriptions of our own; -1 */
        bool wants_raw;     /* in the foreground */
        bool is_raw;        /* now */
        bool is_foreground; /* at the last look */
        bool is_resting;    /* somebody else has the terminal: do not look at `in` for a while */
        bool is_ended;      /* the command's terminal was hung up from inside */
        struct termios before, raw;
        pid_t restorer;
        int restorer_pipe;

        size_t to_user_off, to_user_n;
        size_t to_command_off, to_command_n;
        char to_user[RELAY_OUT_BYTES];
        char to_command[RELAY_IN_BYTES];
};

/* Closed. */
void relay_init(struct relay *r);
/* Without a terminal of ours it does nothing from here on. -errno with err (step "pty"). */
NODISCARD int relay_open(struct relay *r, struct err *err);
/* Before poll: looks at the foreground, fills the array. Returns how long poll may sleep, -1 for ever. */
NODISCARD int relay_prepare(struct relay *r, struct pollfd fds[RELAY_FDS]);
/* After poll. */
void relay_carry(struct relay *r, const struct pollfd fds[RELAY_FDS]);
/* The window has another size. */
void relay_resize(struct relay *r);
/* Before we are stopped: the modes as they were. relay_prepare sets them again. */
void relay_restore(struct relay *r);
/* Nobody is left inside: carries what is still there. Bounded in time. */
void relay_drain(struct relay *r);
/* Restores, and closes what is ours. */
void relay_close(struct relay *r);

/* exec_pair: the pair of sockets over which a shell that was built for it asks before it starts a program (intercept/escalate_socket.h).
 *
 * One end is in the command, inherited by all that it starts, under a fixed number that its environment names; the other one is its
 * broker's. The pair is of SOCK_SEQPACKET: an end of a pair of datagram sockets can send to every socket of the machine whose name it knows,
 * also where the command may make no sockets.
 */
#pragma once

#include "base/compat.h"

/* Above the numbers that scripts use, and those that shells use for themselves. */
#define EXEC_PAIR_NUMBER 198
#define EXEC_PAIR_NUMBER_TEXT "198"

/* How the starts of programs below a command reach its broker. */
enum exec_asking {
        EXEC_ASKED_BY_KERNEL, /* a filter lets every execve wait (sandbox/exec_notify.h) */
        EXEC_ASKED_BY_SHELL,  /* the shell executes a wrapper, which asks over the pair */
};

/* Makes the pair in the command's own process. Returns the broker's end, close-on-exec; or -errno. Raw system calls only. */
NODISCARD int exec_pair_open(void);

/* child: a program that this library starts, whose stdin and stdout are the other end of a socket that we hold.
 *
 * The program is a server on stdio, ssh, or the helper that speaks TLS for a connection. The program ends when our end of the
 * socket is closed; child_end kills it if it does not.
 */
#pragma once

#include "base/err.h"

#include <sys/types.h>

struct child_spec {
        const char *const *argv;
        const char *const *env; /* "NAME=VALUE", added to our environment; NULL: none */
        const char *without;    /* a variable that is not passed on; NULL: none */
        const char *cwd;        /* NULL: ours */
        bool is_apart; /* in a process group of its own, so that Ctrl-C on our terminal does not reach it */
        /* SIGINT and SIGQUIT are blocked in it: for a program that must stay in our process group, because it asks on the terminal */
        bool is_deaf;
};

/* Starts the program. Returns 0 with our end of the socket, non-blocking, and the pid; or -errno with *err filled. */
NODISCARD int child_start(const struct child_spec *spec, int *ret_fd, pid_t *ret_pid, struct err *err);
/* Asks the program to end with SIGTERM: it may have changed the terminal, and puts it right then. */
void child_terminate(pid_t pid);
/* Waits until the program has ended; after `patience_ms` it is killed. The socket was closed before. pid 0 is fine. Returns its wait
 * status, or -1 when the host has reaped it. */
int child_end(pid_t pid, int patience_ms);

/* net_program: the programs of ours that meet the network: farhand-net makes the requests of clients, farhand-egress the connections of
 * commands. Both are found and opened when the server starts, and executed at the first need.
 *
 * The file that was opened at the start is executed (sandbox/helper.h), even when commands have replaced it since.
 */
#pragma once

#include "base/err.h"
#include "sandbox/helper.h"

#include <sys/types.h>

#define NET_PROGRAM "farhand-net"
#define EGRESS_PROGRAM "farhand-egress"

struct net_program_kind {
        const char *name;             /* of the file */
        const char *what;             /* its name in errors */
        const char *const *variables; /* what it gets of the server's environment; ends in NULL */
};
extern const struct net_program_kind net_program_http, net_program_egress;

struct net_program {
        const struct net_program_kind *kind;
        struct helper helper;
        char *refusal; /* why the program is not used; NULL: it is used, or not installed */
};

#define NET_PROGRAM_NONE ((struct net_program){ .helper = HELPER_NONE })

/* Finds and opens the program. To be called once. Logs when the installed program cannot be trusted. */
void net_program_open(struct net_program *p, const struct net_program_kind *kind);
void net_program_close(struct net_program *p);

/* Returns whether there is a program that can be tried to start. Otherwise returns false and, in err, the error of net_program_start. */
NODISCARD bool net_program_is_there(const struct net_program *p, struct err *err);
/* Starts the program with `link` as its descriptor 3. Errors are -32603: `http helper not installed`, `http helper refused: …`,
 * or why it cannot be started. */
NODISCARD int net_program_start(struct net_program *p, int link, pid_t *ret_pid, struct err *err);

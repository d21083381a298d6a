/* net_program: the program farhand-net. It is found and opened when the server starts, and executed at the first http/request.
 *
 * The file that was opened at the start is executed (sandbox/helper.h), even when commands have replaced it since.
 */
#pragma once

#include "base/err.h"
#include "sandbox/helper.h"

#include <sys/types.h>

#define NET_PROGRAM "farhand-net"

struct net_program {
        struct helper helper;
        char *refusal; /* why the program is not used; NULL: it is used, or not installed */
};

#define NET_PROGRAM_NONE ((struct net_program){ .helper = HELPER_NONE })

/* Finds and opens the program. To be called once. Logs when the installed program cannot be trusted. */
void net_program_open(struct net_program *p);
void net_program_close(struct net_program *p);

/* Starts the program with `link` as its descriptor 3. Errors are -32603: `http helper not installed`, `http helper refused: …`,
 * or why it cannot be started. */
NODISCARD int net_program_start(struct net_program *p, int link, pid_t *ret_pid, struct err *err);

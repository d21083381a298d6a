/* spawner: the process between the server and the keepers (see spawn.h and docs/internals/spawner.md). */
#pragma once

#include "base/compat.h"

struct spawn_filer;

#include <sys/resource.h>
#include <sys/types.h>

struct spawner_setup {
        int socket;                      /* our end */
        pid_t server;                    /* our parent */
        struct rlimit nofile;            /* what commands get */
        const struct spawn_filer *filer; /* NULL: there are none */
};

/* Runs in the new process, with all signals blocked, until the server's end of the socket is closed and every process
 * below is gone; then ends the process. */
NORETURN void spawner_run(const struct spawner_setup *setup);

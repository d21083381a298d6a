/* spawner: the process between the server and the keepers (see proc/spawn.h and docs/internals/spawner.md). */
#pragma once

#include "base/compat.h"

struct spawn_fs_helper;

#include <sys/resource.h>
#include <sys/types.h>

struct spawner_setup {
        int socket;                              /* the spawner's end */
        pid_t server;                            /* the parent of the spawner */
        struct rlimit nofile;                    /* the limit of commands: the server was started with it */
        const struct spawn_fs_helper *fs_helper; /* NULL: there are no fs helpers */
        void *(*broker)(
                void *); /* the broker of intercepted commands (keeper/broker_start.h); NULL: there is none */
};

/* Runs in the new process, with all signals blocked, until the server's end of the socket is closed and every process
 * below is gone; then ends the process. */
NORETURN void spawner_run(const struct spawner_setup *setup);

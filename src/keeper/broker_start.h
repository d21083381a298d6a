/* broker_start: what the broker of an intercepted command gets from its keeper (intercept/broker.h). Plain data. */
#pragma once

#include "sandbox/exec_pair.h"

#include <sys/types.h>

struct keeper;

/* The descriptors are the broker's own from then on. */
struct broker_start {
        struct keeper *keeper; /* counters (keeper_shared.h) and the cgroup leaf of the command */
        enum exec_asking asking;
        int listener; /* of the filter that the command's processes have, or the broker's end of the pair */
        int socket;   /* to the server; a stream, non-blocking */
        int config;   /* what intercept_pack made */
        pid_t root;   /* the command's first process, as the keeper sees it */
};

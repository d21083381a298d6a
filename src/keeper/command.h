/* command: the description of one command, as the server makes it and its keeper gets it, and the values that both of them
 * use. Plain data; knows nothing of the processes between them. */
#pragma once

#include "base/compat.h"
#include "keeper/inlets.h"
#include "keeper/spawn_limits.h"
#include "sandbox/exec_pair.h"

struct bwrap;

#define SPAWN_REQUEST_MAX (8 * 1024 * 1024) /* bytes of all strings of a request */

/* What to run, where, within which limits and in which sandbox. Made once from the client's request; borrowed by everything
 * that it is passed to. */
struct command_spec {
        const char *const *argv;       /* argv[0] as the program shall see it; NULL-terminated */
        const char *const *env;        /* "K=V", NULL-terminated */
        const char *const *candidates; /* programs to try in this order, as execvp does; NULL-terminated */
        const char *cwd;               /* absolute */
        bool is_tty;                   /* the command's stdin becomes its controlling terminal */
        struct spawn_limits limits;
        bool wants_cgroup; /* make a cgroup also without limits, if possible, so that the end of the command is certain */
        bool has_image;
        int image_fd;              /* the sandbox (sandbox/image.h) */
        const struct bwrap *bwrap; /* the programs that build the sandbox (preparer_bwrap); NULL: none */
        /* The number of the session. A network that a command was in is used again for a command of the same session only
         * (spawner/nets.h). 0: no other command will follow, so nothing is made ahead. */
        uint64_t session;
        uint32_t helpers; /* processes of the sandbox itself, which do not count for limits.processes */
        /* Every start of a program below the command is decided by a broker (intercept/broker.h). Both descriptors are borrowed. */
        bool is_intercepted;
        enum exec_asking asking;
        int intercept_config; /* what intercept_pack made */
        int intercept_socket; /* the broker's end of a stream socket */
        /* The command's only way out of its sandbox, which has a network of its own. The keeper makes these sockets there, and sends
         * them over inlet_socket before the command is executed. NULL: none. Both are borrowed. */
        const struct inlets *inlets;
        int inlet_socket; /* the keeper's end of a SOCK_SEQPACKET socket pair */
};

/* A command on its way to its keeper: this head, and the strings cwd, argv, env and candidates, each with its NUL. */
struct command_head {
        uint32_t argc, envc, candidatec;
        bool is_tty;
        uint64_t bytes; /* length of all strings */
        struct spawn_limits limits;
};

/* The processes that a signal is for. */
enum spawn_scope {
        SPAWN_GROUP,   /* the process group of the command's first process */
        SPAWN_PROCESS, /* the command's first process only */
        SPAWN_TREE,    /* every descendant */
};

/* What happened to the command before it exited. */
enum spawn_met {
        SPAWN_MET_MEMORY = 1 << 0,    /* memory ran out, and the kernel killed the whole tree */
        SPAWN_MET_PROCESSES = 1 << 1, /* the kernel refused a fork */
        SPAWN_MET_HELD = 1 << 2,      /* the command kept the server waiting for a pipe, and was ended */
};

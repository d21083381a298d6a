/* spawn_msg: what the server, the spawner and the keepers say to each other, one struct per packet.
 *
 * Both ends are the same executable on the same machine, so the structs go over as they are. Server to spawner:
 * struct spawn_order, and for SPAWN_START the strings behind it (or in a memfd): cwd, then argv, env and candidates,
 * each string with its NUL. Descriptors in this order: stdin, stdout, stderr, the memfd when there is one, and the image
 * of the sandbox when there is one. For SPAWN_FILER: the filer's end of its socket, the image.
 * The other way: struct spawn_report.
 */
#pragma once

#include "base/compat.h"
#include "proc/cgroup.h"
#include "proc/spawn.h"

#include <sys/types.h>

#define SPAWN_INLINE_MAX (64 * 1024) /* strings up to here travel in the packet itself */
#define SPAWN_FDS_MAX 5

/* SIGNALs of one command under way. The server sends no more before it has an answer, so a keeper's ring has room for
 * each, and answers come in order. A power of two. */
#define SPAWN_SIGNALS_MAX 64

enum spawn_order_kind { SPAWN_START = 1, SPAWN_SIGNAL, SPAWN_KILL, SPAWN_FILER };

struct spawn_order {
        uint32_t kind;
        uint32_t number;
        uint32_t argc, envc, candidatec; /* start */
        bool is_tty;
        bool in_memfd;
        bool has_image;
        bool wants_cgroup;
        uint64_t whose;
        uint64_t bytes; /* of the strings */
        struct spawn_limits limits;
        struct cgroup_limits tree; /* those of them that only a cgroup can give, or none may start */
        int32_t signo;             /* signal */
        uint32_t scope;
};

/* 0, -EAGAIN for later, or another -errno: nobody reads it any more. */
NODISCARD int spawn_packet_send(int socket, const struct spawn_order *order, struct slice strings,
                                const int fds[], size_t fd_count);

enum spawn_report_kind {
        SPAWN_STARTED = 1, /* these four from the keeper */
        SPAWN_FAILED,
        SPAWN_EXITED,
        SPAWN_SIGNALLED,
        SPAWN_GONE, /* from the spawner, when it has reaped the keeper: the last of its number */
};

enum spawn_step {
        SPAWN_STEP_NONE,
        SPAWN_STEP_FORK,
        SPAWN_STEP_SESSION,
        SPAWN_STEP_STDIO,
        SPAWN_STEP_PTY,
        SPAWN_STEP_LIMITS,
        SPAWN_STEP_CWD,
        SPAWN_STEP_EXEC,
        SPAWN_STEP_NAMESPACES,
        SPAWN_STEP_SANDBOX, /* and above: with an enum enter_step added */
};

/* What a cgroup has to see to (spawn_limits.c). */
NODISCARD struct cgroup_limits spawn_limits_tree(const struct spawn_limits *l);

struct spawn_report {
        uint32_t kind;
        uint32_t number;
        pid_t pid;        /* started */
        uint32_t step;    /* failed: enum spawn_step */
        int32_t os_errno; /* failed, signalled */
        uint32_t op;      /* failed: of the sandbox's plan; or ENTER_NO_OP */
        int32_t status;   /* exited; the rest, too */
        uint32_t met;     /* enum spawn_met */
        uint64_t user_us;
        uint64_t system_us;
        uint64_t max_rss_bytes;
};

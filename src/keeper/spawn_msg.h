/* spawn_msg: the packets between the server, the spawner and the keepers, one struct each.
 *
 * Both ends are the same executable on the same machine, so the structs are sent as they are. The server sends the spawner a
 * struct spawn_order, and for SPAWN_START the strings behind it (or in a memfd): cwd, then argv, env and candidates, each string
 * with its NUL. The descriptors of a start come in this order: stdin, stdout, stderr, the memfd if there is one, the image of
 * the sandbox if there is one, if bwrap builds it bwrap and farhand-init, and if the command is intercepted the configuration and
 * the socket of its broker, and last the socket for the inlets if there are any (inlets.h). The descriptors of SPAWN_FS_HELPER are the fs helper's end of its socket, the image, and the same two programs.
 *
 * Or no descriptor comes with the packet, and the order says which ones the spawner has to open (lend.h); a spawner that cannot
 * open them answers SPAWN_RETURNED. For an fs helper the image and the programs are lent, and the socket is made by connecting to
 * an address.
 *
 * The spawner and the keepers send the server struct spawn_report.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"
#include "keeper/command.h"
#include "keeper/lend.h"

#include <sys/types.h>

#define SPAWN_INLINE_MAX (64 * 1024) /* longer strings are in a memfd */
#define SPAWN_FDS_MAX 10
#define SPAWN_STDIO 3    /* stdin, stdout and stderr: the first three descriptors of a start */
#define SPAWN_PROGRAMS 2 /* bwrap and farhand-init */
#define SPAWN_BROKER 2   /* configuration and socket of the broker */

/* How many SPAWN_SIGNAL orders for one command may be unanswered. The server sends no more before it has an answer, so the
 * ring of orders in a keeper has room for all of them, and the answers come in order. A power of two. */
#define SPAWN_SIGNALS_MAX 64

enum spawn_order_kind { SPAWN_START = 1, SPAWN_SIGNAL, SPAWN_KILL, SPAWN_FS_HELPER };

struct spawn_order {
        uint32_t kind;               /* enum spawn_order_kind */
        uint32_t number;             /* of the command; not for SPAWN_FS_HELPER */
        struct command_head command; /* for SPAWN_START */
        bool is_in_memfd;            /* the strings of the command are in a memfd, not in the packet */
        bool has_image;
        bool has_bwrap;
        bool is_intercepted;
        enum exec_asking asking;
        bool wants_cgroup;
        struct inlets inlets;
        uint64_t session; /* the number of the session; two sessions never share a network namespace */
        struct cgroup_limits tree; /* limits that only a cgroup can enforce; without one the start fails */
        int32_t signo;             /* for SPAWN_SIGNAL */
        uint32_t scope;            /* for SPAWN_SIGNAL: enum spawn_scope */
        uint32_t lent_count;
        struct lent lent[SPAWN_FDS_MAX];
        uint32_t address_bytes; /* for SPAWN_FS_HELPER */
        char address[8];        /* sun_path of an abstract socket */
};

/* Sends an order. Returns 0; -EAGAIN: there is no room yet; -ETOOMANYREFS: the kernel passes no descriptors on, because commands
 * of this user keep too many in flight; or another -errno: the other end is closed. */
NODISCARD int spawn_packet_send(int socket, const struct spawn_order *order, struct slice strings,
                                const int fds[], size_t fd_count);

enum spawn_report_kind {
        SPAWN_STARTED = 1, /* the keeper sends the first four kinds */
        SPAWN_FAILED,
        SPAWN_EXITED,
        SPAWN_SIGNALLED,
        SPAWN_GONE, /* from the spawner, when it has reaped the keeper: the last report of that number */
        SPAWN_HELD, /* from the spawner, before GONE: the command was ended because a pipe was kept locked */
        SPAWN_RETURNED, /* from the spawner: it cannot open what was lent, and has dropped the order */
        SPAWN_UNABLE,   /* the last report of a spawner that cannot run: `step` is an enum spawn_need */
};

/* The exit code of a spawner that has sent SPAWN_UNABLE. */
#define SPAWN_EXIT_UNABLE 3

/* What a spawner needs to run. */
enum spawn_need { SPAWN_NEED_REAPER, SPAWN_NEED_FDS, SPAWN_NEED_ROOT, SPAWN_NEED_LIMITS, SPAWN_NEED_SIGNALS };

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
        SPAWN_STEP_INTERCEPT,
        SPAWN_STEP_SANDBOX, /* a step of the sandbox is this number plus its enum enter_step */
};

struct spawn_report {
        uint32_t kind;    /* enum spawn_report_kind */
        uint32_t number;  /* of the command */
        pid_t pid;        /* for SPAWN_STARTED */
        uint32_t step;    /* for SPAWN_FAILED: enum spawn_step */
        int32_t os_errno; /* for SPAWN_FAILED and SPAWN_SIGNALLED */
        uint32_t op;      /* for SPAWN_FAILED: the operation of the sandbox's plan, or ENTER_NO_OP */
        int32_t status;   /* for SPAWN_EXITED, as are all members below */
        uint32_t met;     /* enum spawn_met */
        uint64_t user_us;
        uint64_t system_us;
        uint64_t max_rss_bytes;
        uint64_t run, escalated, denied; /* keeper::run, keeper::escalated and keeper::denied */
};

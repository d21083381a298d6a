/* server: the one object that owns everything: loop, listener, connections, sessions, processes.
 *
 *     server -> sessions -> tasks (a client's processes)        a conn borrows a session
 *
 * All state belongs to the loop's thread. Nothing reachable from the loop is freed inside a callback: objects are marked
 * dead and freed at the end of the turn.
 */
#pragma once

#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "loop/loop.h"
#include "proc/process.h"
#include "server/config.h"

struct listener;

struct server {
        struct loop loop;
        const struct config *config;
        struct procs procs;
        struct listener *listener;
        char id[UUID_TEXT_BYTES]; /* of this life of the server */

        struct list conns;       /* conn::link */
        struct list dirty;       /* conn::dirty_link: have something to send */
        struct list https;       /* httpd::link */
        size_t connection_count; /* conns and https */
        char *scratch;           /* LIMIT_READ_BYTES + BUF_PADDING and room for the rest of the read before */

        struct map sessions;        /* by id */
        struct list ended_sessions; /* session::ended_link: their processes are being ended */
        struct list expired;        /* ids of sessions that ended, for a better answer; oldest first */
        size_t expired_count;
        struct list retained[3]; /* task::retained_link by retention_class: whose output goes first */

        uint64_t assembly_used;                         /* bytes of large incoming messages */
        struct list assembly_waiting, assembly_holding; /* conn::assembly_link */
        struct timer *assembly_timer;

        uv_signal_t sigterm, sigint, sigchld;
        bool is_draining; /* no new sessions; running trees have their grace period */
        bool is_killing;  /* which is over */
        struct timer *drain_timer;
        int exit_code;
};

/* Runs until a signal or, on stdio, the end of input; the exit code. Prints the URL on stdout. `config` is checked. */
NODISCARD int server_run(const struct config *config);

/* A process tree is gone: a drain may be over. */
void server_process_gone(struct server *s);
/* stdio has ended. */
void server_stop(struct server *s, int exit_code);
/* Ends everything in good order, then leaves the loop. Asked twice it does not wait. */
void server_drain(struct server *s);

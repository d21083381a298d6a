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
#include "loop/pool.h"
#include "proc/process.h"
#include "server/boxes.h"
#include "server/config.h"
#include "server/filers.h"
#include "server/selftest.h"
#include "server/spares.h"

struct journal;
struct listener;
struct net_helper;
struct watcher;

/* Room in the scratch buffer for the rest of the read before: less than a frame head and a control frame. */
#define SERVER_SCRATCH_REST 512

struct server {
        struct loop loop;
        const struct config *config;
        struct procs procs;
        struct boxes boxes;   /* sandboxes for commands */
        struct filers filers; /* … and for file requests */
        struct selftest selftest;
        struct pool *pool;       /* file work: whatever may block */
        struct journal *journal; /* of temporary files; NULL when none can be kept */
        struct watcher *watcher; /* made by the first request that watches */
        struct listener *listener;
        struct net_helper *net;   /* NULL until the first http/request */
        char id[UUID_TEXT_BYTES]; /* of this life of the server */

        struct spares spares; /* large buffers for answers */

        struct list conns;       /* conn::link */
        struct list dirty;       /* conn::dirty_link: have something to send */
        struct list https;       /* httpd::link */
        size_t connection_count; /* conns and https */
        char *scratch; /* SERVER_SCRATCH_REST + LIMIT_READ_BYTES + BUF_PADDING: what one turn reads of one connection */

        struct list tasks;          /* task::server_link: of all sessions, in order of start */
        struct map sessions;        /* by id */
        uint64_t last_session;      /* session::number */
        struct list ended_sessions; /* session::ended_link: their processes are being ended */
        struct list expired;        /* ids of sessions that ended, for a better answer; oldest first */
        size_t expired_count;
        struct list retained[3]; /* task::retained_link by retention_class: whose output goes first */

        uint64_t parked_bytes;                          /* held by waiting requests of all connections */
        uint64_t assembly_used;                         /* bytes of large incoming messages */
        uint64_t assembly_window;                       /* counts the looks at dawdlers */
        struct conn *assembly_exceeding;                /* the one that may go over the total */
        struct list assembly_waiting, assembly_holding; /* conn::assembly_link */
        struct timer *assembly_timer;

        uv_signal_t sigterm, sigint, sighup, sigchld;
        bool is_draining;  /* no new sessions; running trees have their grace period */
        bool is_finishing; /* clients are being told that it is over */
        bool is_killing;   /* which is over */
        struct timer *drain_timer;
};

/* Runs until a signal or, on stdio, the end of input; the exit code. Prints the URL on stdout. `config` is checked. */
NODISCARD int server_run(const struct config *config);

/* A process tree is gone: a drain may be over. */
void server_process_gone(struct server *s);
/* A connection is gone: the farewell may be over. */
void server_conn_gone(struct server *s);
/* Ends everything in good order, then leaves the loop. Asked twice it does not wait. */
void server_drain(struct server *s);

/* server: the object that owns everything: loop, listener, connections, sessions, processes. Most modules use it; this header
 * includes none of them. server/run.h starts the server, server/drain.h ends it.
 *
 *     server -> sessions -> tasks (a client's processes)        a client borrows a session
 *
 * All state belongs to the loop's thread. Nothing reachable from the loop is freed inside a callback: objects are marked
 * dead and freed at the end of the turn.
 */
#pragma once

#include "base/limits.h"
#include "base/list.h"
#include "base/map.h"
#include "base/random.h"
#include "confine/confine.h"
#include "confine/fs_helpers.h"
#include "conn/conns.h"
#include "core/config.h"
#include "core/net_program.h"
#include "core/reload.h"
#include "fsop/quick.h"
#include "loop/loop.h"
#include "loop/pool.h"
#include "proc/process.h"

struct gate;
struct journal;
struct listener;
struct net_helper;
struct selftest;
struct watcher;

struct server {
        struct loop loop;
        const struct config *config; /* changes at a SIGHUP: do not keep its values across callbacks */
        struct reload reload;
        struct procs procs;
        struct confine confine;       /* sandboxes for commands */
        struct fs_helpers fs_helpers; /* sandboxes for file requests */
        struct selftest *selftest;
        struct pool *pool;       /* for work that may block */
        struct quick quick;      /* decides which file requests need no thread */
        struct journal *journal; /* records temporary files; NULL when that is not possible */
        struct work sweep;       /* at the start: removes what a server that was killed has left */
        struct watcher *watcher; /* made by the first request that watches */
        struct conns conns;
        struct listener *listener;                       /* NULL on stdio */
        struct net_program http_program, egress_program; /* opened at the start */
        struct net_helper *net;                          /* NULL until the first http/request */
        struct gate *gate;        /* NULL until the first command with a managed network */
        char id[UUID_TEXT_BYTES]; /* different at each start */
        bool has_warned_open;     /* the log says that sandboxed commands can connect to the server */

        struct list tasks;     /* task::server_link: tasks of all sessions, in order of start */
        struct list leftovers; /* leftover::link (task_again.c): processes of failed starts */
        struct map sessions;   /* by id */
        struct list
                orphaned_jobs; /* job::link: changes that threads work on, and whose connection has ended */
        struct list detached_sessions; /* session::detached_link: longest detached first */
        uint64_t last_session;         /* session::number of the newest session */
        struct timer *idle_timer;      /* NULL: the server never ends by itself */
        uint64_t idle_since_ms;        /* the time since which no session was seen */
        uint64_t idle_session;         /* last_session at the time idle_since_ms */
        struct list ended_sessions;    /* session::ended_link: sessions whose processes are being ended */
        struct list expired; /* expired::link (session.c): ids of sessions that have ended, oldest first */
        size_t expired_count;
        struct list retained[3]; /* task::retained_link; index: enum retention_class (task_retention.c) */

        uint64_t question_bytes; /* memory that the open questions of intercepted commands hold */
        uint64_t parked_bytes;   /* memory that waiting requests of all connections hold */

        struct signals *signals;
        bool is_draining;  /* no new sessions are made; running processes have their grace period */
        bool is_finishing; /* clients are being told that the server ends */
        bool is_killing;   /* the grace period is over */
        struct timer *drain_timer;
};

/* Called when a process tree is gone. If the server is ending and the tree was the last one, the server goes on with its end. */
void server_process_gone(struct server *s);
/* Called when a connection is gone. If the server is ending and the connection was the last one, the loop stops. */
void server_conn_gone(struct server *s);

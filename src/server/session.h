/* session: what a client has: its processes. Outlives its connection for the detach time.
 *
 * Attached: a connection gets the notifications. Detached: processes go on, output goes to retention only, a timer
 * runs; then the session ends: its processes get the grace period and are killed with everything below them. An ended
 * session is unknown to clients at once and freed when its last process is gone.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "server/conn.h"
#include "server/server.h"

struct session {
        struct server *server;
        char id[UUID_TEXT_BYTES];
        uint64_t number; /* no other of this server has had it */
        char *client_name;
        struct conn *conn; /* NULL while detached */
        struct map tasks;  /* task::id -> task: those that a client can name */
        struct list all;   /* task::session_link: also those whose id is free again but whose tree lives on */
        uint64_t expires_ms; /* detached: when its timer runs out, monotonic */
        size_t task_count;   /* of `all` */
        uint64_t detach_ms;
        int64_t created_at_ms;
        struct timer *timer; /* detached: its end; ended: the grace period */
        bool is_ended;
        struct timer *probe;    /* a resume met us attached: is the old connection alive? */
        uint64_t probe_reads;   /* of that connection, then */
        struct list ended_link; /* server::ended_sessions */
        struct deferred reap;
};

/* Detached, with no timer running: attach it. */
struct session *session_new(struct server *s, struct slice client_name, uint64_t detach_ms);
NODISCARD struct session *session_find(struct server *s, struct slice id); /* NULL when unknown or ended */
/* Why session_find found nothing: "otherServer", "expired" or "unknown". */
const char *session_missing_reason(struct server *s, struct slice id);

void session_attach(struct session *session, struct conn *c);
/* Leaves its connection, to be attached to another one in the same turn. */
void session_leave(struct session *session);
/* The connection is gone: the detach time begins (when it is 0: the end). */
void session_detach(struct session *session);
/* The attached connection may be dead: ping it; when nothing comes it is dropped, so that a retried resume succeeds. */
void session_probe(struct session *session);
/* Ends it: TERM to all trees, KILL after the grace period (at once when that is 0). */
void session_end(struct session *session);
void session_kill(struct session *session); /* the grace period is over */

void session_pause_output(struct session *session, bool paused);
/* Long polls whose answers were held back by a full queue. */
void session_wake_readers(struct session *session);
/* A task's tree has gone: an ended session may be free now. */
void session_task_gone(struct session *session);
bool session_has_processes(const struct session *session);

void sessions_release(struct server *s); /* at the end of the server: frees all, whatever still runs */

/* session: the processes of a client, which outlive its connection for the detach time. How sessions begin and end is in
 * session_life.h.
 *
 * A session belongs to the identity that made it, even while an admin is attached to it. Other identities do not learn that the
 * session exists.
 *
 * While a session is attached, a connection gets its notifications. While it is detached, its processes go on, their output is
 * only retained, and a timer runs. When the timer runs out the session ends: its processes get the grace period and are then
 * killed with all their descendants. Clients cannot find an ended session. It is freed when its last process is gone.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "core/client.h"
#include "core/server.h"
#include "session/network_memory.h"

/* The stage of a task. Limits count the tasks in each stage. */
enum task_stage {
        TASK_RUNNING,  /* starting or running: the task has not closed */
        TASK_ENDING,   /* closed, failed to start, or a finished capture; the tree may not be gone */
        TASK_FINISHED, /* closed, and the process tree is gone */
        TASK_STAGES,
};

struct session {
        struct server *server;
        char id[UUID_TEXT_BYTES];
        uint8_t owner[IDENTITY_BYTES];
        uint64_t number; /* unique among all sessions of this server */
        char *client_name;
        struct client *client; /* NULL while detached */
        struct map tasks;      /* task::id -> task: the tasks that a client can name */
        struct list all; /* task::session_link: all tasks, including those that no client can name any more */
        uint64_t expires_ms;        /* while detached: when `timer` runs out, monotonic */
        size_t counts[TASK_STAGES]; /* number of tasks in `all` by task::stage */
        struct list finished; /* task::finished_link: closed tasks that clients can name, oldest first */
        size_t finished_count;
        uint64_t detach_ms;
        int64_t created_at_ms;
        struct timer *timer; /* while detached: runs until the session ends */
        bool is_ended;
        struct timer *probe;         /* runs while the attached connection is tested for being alive */
        uint64_t probe_reads;        /* conn::reads of that connection when the test began */
        struct list detached_link;   /* server::detached_sessions */
        struct list ended_link;      /* server::ended_sessions */
        struct list shell_snapshots; /* shell_snapshot::link */
        size_t shell_snapshot_count;
        struct network_memory
                network_memory; /* what clients have decided about connections of all processes */
        /* Called when the process tree of a task is gone: frees an ended session whose last task it was. */
        void (*task_gone)(struct session *session);
        struct deferred reap;
};

/* Returns NULL when the session is unknown, has ended, or belongs to another identity. */
NODISCARD struct session *session_find(struct server *s, const struct identity *who, struct slice id);
/* Returns why session_find found nothing: "otherServer", "expired" or "unknown". */
const char *session_missing_reason(struct server *s, const struct identity *who, struct slice id);

/* Sets the error for an id with which session_find found nothing, and returns its code. */
int session_unknown(struct server *s, const struct identity *who, struct slice id, struct err *err);

/* How many characters of an id may be shown to anybody, as in logs. They tell sessions apart, but do not suffice to resume a
 * session (74 random bits are missing). */
#define SESSION_SHORT_ID_CHARS 13
/* Returns the id as this client may see it: whole when the client may resume the session, otherwise shortened. The caller must
 * check with identity_may_see that the client may see the session at all. */
NODISCARD struct slice session_id_for(const struct session *session, const struct client *c);

/* Finds the session that a request names: the client's own when `id` is absent (p == NULL) or its id; otherwise another one that
 * the client may see, by the id that session_id_for shows to it or by the whole one. The session is only borrowed: it stays
  * attached to its connection, if it has one. Fails when the operator allows no requests beyond the own session, when there is no
  * such session, and when several sessions have the shortened id. */
struct req;
NODISCARD int session_named(const struct req *req, struct slice id, struct session **ret, struct err *err);
/* Returns whether session_named would find another session than the client's own, or none. */
NODISCARD bool session_is_elsewhere(const struct client *c, struct slice id);

/* session_remember_expired keeps the id of a session that ends, for session_missing_reason; session_forget_expired frees all kept
 * ids. */
void session_remember_expired(const struct session *session);
void session_forget_expired(struct server *s);

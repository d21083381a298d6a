/* task: a client's process: the id that it chose, who waits for it, and what it is told.
 *
 * Between proc/process, which knows no clients, and the methods, which know no descriptors. A task is named by its id
 * until `exited_process_retention_ms` after its close; it is freed when its tree is gone as well.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "proc/process.h"
#include "server/boxes.h"
#include "server/parked.h"
#include "server/session.h"

struct write_ids; /* remembered ids of accepted writes */

enum retention_class { RETAIN_CLOSED, RETAIN_DETACHED, RETAIN_ATTACHED };

/* Why the server ended a process, when it did. */
enum end_cause {
        END_BY_ITSELF,
        END_TERMINATED, /* a client asked for it */
        END_WALL_LIMIT,
        END_SILENCE_LIMIT,
        END_SANDBOX, /* somebody outside broke its sandbox */
        END_SESSION,
        END_SHUTDOWN,
};

struct task {
        struct session *session;
        struct list session_link; /* session::all */
        struct list server_link;  /* server::tasks */
        char *id;
        size_t id_len;
        bool is_named; /* in session::tasks */
        bool is_sandboxed;
        bool is_offline;   /* sandboxed, in an empty network */
        bool is_denied;    /* it failed, and its output says that it was the sandbox; decided at its exit */
        bool is_cancelled; /* terminated while starting */
        char *denials;     /* what was, as JSON; NULL: nothing that is known */
        struct process *process;
        enum end_cause cause;          /* valid once it has exited, or is being ended */
        struct process_limits *limits; /* NULL when it has none */
        char *argv_json, *cwd;         /* for lists */
        struct timer *wall, *silence;  /* limits */
        uint64_t grace_until_ms;
        struct timer *grace; /* asked to end; killed when this runs out */
        struct list starts;  /* task_start::link: one, or none when its connection went away */
        struct list readers; /* task_read::link */
        struct list waits;   /* task_wait::link */
        struct list writes;  /* task_write::link, in order of arrival */
        struct list signals; /* task_signal::link, in order of sending */
        struct write_ids *write_ids;
        struct timer *retention;   /* since the close */
        struct list retained_link; /* server::retained */
        struct deferred reap;
        struct box_made box;         /* its sandbox */
        char *program, *search_path; /* of a start that is under way, for the text of its failure */
};

static inline struct slice task_id(const struct task *t)
{
        return slice_from(t->id, t->id_len);
}

NODISCARD struct task *task_find(const struct session *session, struct slice id);

/* The methods' work; each answers or parks `req`, or fails. */
struct process_start;
struct process_read;
struct process_write;
struct process_wait;
struct process_signal;
struct process_limits;
/* What can be told before a sandbox is planned for it. */
NODISCARD int task_start_check(struct req *req, const struct process_start *in, struct err *err);
/* `box`: its sandbox, which it takes when it succeeds; NULL: it runs plainly. */
struct box_made;
NODISCARD int task_start(struct req *req, const struct process_start *in, struct box_made *box,
                         struct err *err);
/* What the command will have in its environment. From any thread. */
NODISCARD const char **task_environment(struct arena *a, const struct process_start *in);
NODISCARD int task_read(struct task *t, struct req *req, const struct process_read *in, struct err *err);
NODISCARD int task_write(struct task *t, struct req *req, const struct process_write *in, struct err *err);
NODISCARD int task_close_stdin(struct task *t, struct req *req, struct err *err);
NODISCARD int task_wait(struct task *t, struct req *req, const struct process_wait *in, struct err *err);
NODISCARD int task_signal(struct task *t, struct req *req, const struct process_signal *in, struct err *err);
/* Was it running? `grace_ms` 0: SIGKILL to the tree now; else SIGTERM to its group, and SIGKILL after that time. */
bool task_terminate(struct task *t, uint64_t grace_ms);

/* For limits, the session and the server: SIGTERM to the whole tree; then SIGKILL. */
void task_end_gently(struct task *t, enum end_cause cause);
void task_end_now(struct task *t, enum end_cause cause);
void task_pause(struct task *t, bool paused);
/* Its tree is gone, and its session or its retention has ended: freed at the end of the turn. */
void task_forget(struct task *t);
/* Attached or detached: whose output goes first when memory is short. */
void task_reclass(struct task *t);

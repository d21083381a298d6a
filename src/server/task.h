/* task: a client's process: the id that it chose, who waits for it, and what it is told.
 *
 * Between proc/process, which knows no clients, and the methods, which know no descriptors. A task is named by its id
 * until `exited_process_retention_ms` after its close; it is freed when its tree is gone as well.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "proc/process.h"
#include "server/parked.h"
#include "server/session.h"

struct write_ids; /* remembered ids of accepted writes */

enum retention_class { RETAIN_CLOSED, RETAIN_DETACHED, RETAIN_ATTACHED };

struct task {
        struct session *session;
        struct list session_link; /* session::all */
        char *id;
        size_t id_len;
        bool is_named; /* in session::tasks */
        bool is_sandboxed;
        bool is_cancelled; /* terminated while starting */
        struct process *process;
        struct list starts;  /* task_start::link: one, or none when its connection went away */
        struct list readers; /* task_read::link */
        struct list writes;  /* task_write::link, in order of arrival */
        struct list signals; /* task_signal::link, in order of sending */
        struct write_ids *write_ids;
        struct timer *retention;   /* since the close */
        struct list retained_link; /* server::retained */
        struct deferred reap;
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
NODISCARD int task_start(struct req *req, const struct process_start *in, struct err *err);
NODISCARD int task_read(struct task *t, struct req *req, const struct process_read *in, struct err *err);
NODISCARD int task_write(struct task *t, struct req *req, const struct process_write *in, struct err *err);
NODISCARD int task_signal(struct task *t, struct req *req, int signo, struct err *err);
bool task_terminate(struct task *t); /* was it running? */

/* For the session: SIGTERM to the whole tree; then SIGKILL. */
void task_end_gently(struct task *t);
void task_end_now(struct task *t);
void task_pause(struct task *t, bool paused);
/* Its tree is gone, and its session or its retention has ended: freed at the end of the turn. */
void task_forget(struct task *t);
/* Attached or detached: whose output goes first when memory is short. */
void task_reclass(struct task *t);

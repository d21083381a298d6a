/* task: a process as its client knows it: the id that the client chose, the requests that wait for it, and its notifications.
 *
 * A task is between proc/process, which knows no clients, and the methods, which know no descriptors. Clients can name a task
 * by its id until `exited_process_retention_ms` after its close. The task is freed after that, when its process tree is gone.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "confine/confine.h"
#include "core/parked.h"
#include "proc/process.h"
#include "session/session.h"

struct starter; /* task_internal.h */
struct task;
struct task_intercept; /* task_intercept.c */
struct task_network;   /* task_network.c */
struct task_again;     /* what a start needs to be planned again */
struct write_ids;      /* ids of the last accepted writes */

/* Why the server ended a process, if it did. */
enum end_cause {
        END_BY_ITSELF,
        END_TERMINATED, /* by process/terminate */
        END_WALL_LIMIT,
        END_SILENCE_LIMIT,
        END_SANDBOX, /* a process outside of the sandbox broke it */
        END_SESSION,
        END_SHUTDOWN,
};

struct task {
        struct session *session;
        struct list session_link; /* session::all */
        struct list server_link;  /* server::tasks */
        enum task_stage stage;
        uint64_t ending_since_ms; /* when the task became TASK_ENDING, monotonic */
        char *id;
        size_t id_len;
        bool is_named;  /* the task is in session::tasks: clients can name it */
        bool is_hidden; /* the task is a capture, which no client knows of */
        bool is_sandboxed;
        bool is_offline; /* the sandbox has no network */
        bool is_denied; /* the command failed, and its output says that the sandbox is the cause; set at the exit */
        bool is_cancelled; /* terminated while starting */
        char *denials;     /* what the sandbox denied, as JSON; NULL: not known */
        struct process *process;
        enum end_cause cause;          /* valid when the process has exited or is being ended */
        struct process_limits *limits; /* NULL: the request set no limits */
        char *argv_json, *cwd;         /* for process/list */
        char *name;                    /* program of the request, shortened, for the log */
        uint64_t started_mono_ms;      /* 0: the process has not started */
        struct timer *wall, *silence;  /* timers of `limits` */
        uint64_t grace_until_ms;
        struct timer *grace;     /* runs after SIGTERM was sent; SIGKILL is sent when it runs out */
        struct starter *starter; /* the request process/start; NULL: answered, or its connection has ended */
        struct task_again
                *again; /* set while a start is not answered, or not decided, that may have to be planned */
        struct task_network *network;           /* NULL: the network of the command is not managed */
        struct task_intercept *intercept;       /* NULL: the command is not intercepted */
        uint64_t wall_left_ms, silence_left_ms; /* of `wall` and `silence`, while they stand still */
        struct deferred give_up;                /* forgets a task whose process will never begin */
        struct list readers;                    /* reader::waiting.link (task_wait.c) */
        struct list waits;                      /* waiter::waiting.link (task_wait.c) */
        unsigned guests;     /* how many in `readers` and `waits` come from clients of other sessions */
        struct list writes;  /* writer::link (task_write.c), in order of arrival */
        struct list signals; /* signal_wait::link (task_signal.c), in order of sending */
        struct write_ids *write_ids;
        struct timer *retention;   /* runs since the close */
        struct list finished_link; /* session::finished, since the close */
        struct list retained_link; /* server::retained */
        struct deferred reap;
        struct guarded sandbox;
        bool is_break_logged;                        /* the log says that the sandbox was broken */
        const struct capture_events *capture_events; /* callbacks of a task that captures a shell snapshot */
        void *capture; /* argument of capture_events; NULL: task_capture_over was called, or the task is no capture */
        char *program, *search_path; /* during the start, for the text of a failure */
};

static inline struct slice task_id(const struct task *t)
{
        return slice_from(t->id, t->id_len);
}

NODISCARD struct task *task_find(const struct session *session, struct slice id);
/* Sets the error for an id that no task has, and returns its code. */
int task_unknown(struct slice id, struct err *err);

/* The handlers of process/start (start_plan.c) and of process/list (process_list.c). */
NODISCARD int process_start_handle(struct req *req, const void *params, struct err *err);
NODISCARD int process_list_handle(struct req *req, const void *params, struct err *err);

/* Do the work of the other process methods. Each function answers `req`, parks it, or fails. */
struct process_read;
struct process_write;
struct process_wait;
struct process_signal;
struct process_limits;
struct process_exec_decide;
NODISCARD int task_read(struct task *t, struct req *req, const struct process_read *in, struct err *err);
NODISCARD int task_write(struct task *t, struct req *req, const struct process_write *in, struct err *err);
NODISCARD int task_close_stdin(struct task *t, struct req *req, struct err *err);
NODISCARD int task_wait(struct task *t, struct req *req, const struct process_wait *in, struct err *err);
NODISCARD int task_exec_decide(struct task *t, struct req *req, const struct process_exec_decide *in,
                               struct err *err);
NODISCARD int task_signal(struct task *t, struct req *req, const struct process_signal *in, struct err *err);
/* Called when the outgoing queue of a client has room: answers its reads that the full queue held back. */
void task_reads_on_room(struct client *c);
/* Ends the process for a client. `grace_ms` 0: sends SIGKILL to the tree now; otherwise SIGTERM to the process group, and SIGKILL
 * to the tree after that time. Returns whether the process was running. */
bool task_terminate(struct task *t, uint64_t grace_ms);

#define TASK_EXIT_BYTES 256 /* about the size of the members that task_exit_write writes */
/* Writes the member exitCode: null while the process has not exited. */
void task_exit_code_write(struct jsonw *w, const struct task *t);
/* Writes the members signal, coreDumped, reason, usage and, for a sandboxed process, denials into the open object of `w`. The
 * process must have exited. */
void task_exit_write(struct jsonw *w, const struct task *t);

/* Writes the member openQuestions of an intercepted command. */
void task_intercept_open_write(struct jsonw *w, const struct task *t);

/* Frees what failed starts have left, at the end of the server, when no more events of processes come. */
void task_again_release(struct server *s);

/* End a process because of a limit, or because its session or the server ends: task_end_gently sends SIGTERM to the whole tree, and
 * SIGKILL after the grace period; task_end_now sends SIGKILL. */
void task_end_gently(struct task *t, enum end_cause cause);
void task_end_now(struct task *t, enum end_cause cause);

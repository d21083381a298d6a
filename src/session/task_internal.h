/* task_internal: what the files of the module task share: making and ending tasks (task.c), events and notifications
 * (task_events.c), process/start (task_start.c, task_command.c, task_again.c, task_start_answer.c), requests that wait for a
 * process (task_wait.c), write to it (task_write.c) or signal it (task_signal.c), its exit (task_exit.c, task_denied.c) and its
 * retained output (task_retention.c). */
#pragma once

#include "core/req.h"
#include "session/task.h"

struct interception; /* first_program.h */
struct command_spec;
struct process_start;

extern const struct process_events task_process_events;

/* Events of a capture (task_capture). `arg` is the argument that task_capture was given. */
struct capture_events {
        void (*begun)(void *arg, struct task *t); /* called before the process is started */
        /* `is_overtaken`: changes on the disk have overtaken the sandbox plan. */
        void (*not_started)(void *arg, bool is_overtaken);
        void (*output)(void *arg); /* the retained output has grown */
        void (*ended)(void *arg);
};

struct task *task_new(struct session *session, struct slice id);
/* Makes a task that no client can name and that sends no notifications. */
struct task *task_new_hidden(struct session *session);
/* Frees the task's id for another process. */
void task_unname(struct task *t);
void task_set_stage(struct task *t, enum task_stage stage);
/* Called when the process has closed: clients can still name the task for a while, then its id is free. */
void task_finish(struct task *t);
/* Called when the process tree is gone: no time limit matters any more. */
void task_stop_timers(struct task *t);
/* Frees the task at the end of the turn. Its process tree must be gone. */
void task_forget(struct task *t);
/* Called when the process has closed, or the session was attached or detached: this decides whose output is dropped first when
 * memory is short. */
void task_reclass(struct task *t);
void task_pause(struct task *t, bool paused);
/* Called when the process has not begun and never will: frees the id, and forgets the task at the end of the turn. */
void task_never_begun(struct task *t);

/* task_events.c: the limits wallMs and silenceMs stand still, and go on. */
void task_limits_hold(struct task *t);
void task_limits_go_on(struct task *t);
/* task_events.c: the callback for guarded::on_broken. Ends the command. */
void task_sandbox_broken(struct guarded *g);

/* A process/start that is not answered. */
struct starter {
        struct parked parked;
        struct task *task;
};

/* task_start_answer.c: these functions answer process/start. `step` NULL: the start was cancelled. */
void task_start_succeeded(struct task *t);
void task_start_failed(struct task *t, const char *step, int os_errno);
/* Called when the process has not begun and never will: answers with `err`, and forgets the task. */
void task_start_refused(struct task *t, const struct err *err);

/* Called when the task waits for the decision about its first program, and is to end: the start is refused. */
void task_start_given_up(struct task *t);

/* task_start.c: makes the checks that are possible before a sandbox is planned. */
NODISCARD int task_start_check(struct req *req, const struct process_start *in, struct err *err);
/* Starts a process for a client. Takes `sandbox` and `interception` unless it fails; NULL: the command runs without a sandbox, or is
 * not intercepted. When a client has to decide about the first program, there is no sandbox yet. */
NODISCARD int task_start(struct req *req, struct process_start *in, struct guarded *sandbox,
                         struct interception *interception, struct err *err);
/* Starts a process of the session that no client knows of, for its output. Takes the sandbox, unless it returns -EAGAIN: the
 * session has no room for the process. */
NODISCARD int task_capture(struct session *session, const struct process_start *in, struct guarded *sandbox,
                           const struct capture_events *events, void *arg, struct err *err);
/* Called when the owner of a capture needs it no longer: no more events come, and the task counts as ending. */
void task_capture_over(struct task *t);
/* Starts the process of a task whose sandbox is planned. Returns 0, or -errno: then the process has not begun. */
NODISCARD int task_start_begin(struct task *t, const struct process_start *in, struct err *err);

/* task_command.c: task_command_check checks the sizes and texts of a command. task_command_make makes the command in the arena,
 * without a sandbox. task_search_path returns the PATH in which its program is searched. task_kernel_limits returns the limits
 * that the kernel enforces (wall time and silence are timers of the server). */
NODISCARD int task_command_check(const struct process_start *in, struct err *err);
NODISCARD int task_command_make(struct arena *a, const struct process_start *in, struct command_spec *ret,
                                struct err *err);
/* Finds the file that execvp would execute for a command with this environment. For any thread; may block. Returns 0, or -errno: the
 * name or the PATH is too long. */
NODISCARD int task_program_find(struct arena *a, const struct process_start *in, const char *const *env,
                                struct slice *ret, struct err *err);
const char *task_search_path(const char *const *env);
struct spawn_limits task_kernel_limits(const struct process_limits *l);
/* Makes the sandbox of a start. For any thread; may block. `env` is the environment of the command. Returns 0, or -errno with
 * `err` for the client. */
NODISCARD int task_confine(struct server *s, struct arena *a, const struct process_start *in,
                           const char *const *env, struct guarded *ret, struct err *err);
/* Replaces a start of codex-linux-sandbox (proto/linux_sandbox.h) when that program is not on this machine: `in` becomes the command in
 * its arguments, with the sandbox that the program would have made. `env` is the environment of the command. For a thread; may block.
 * Returns 0, or -errno with `err` when that is not possible. */
NODISCARD int task_replace_linux_sandbox(struct arena *a, struct process_start *in, const char *const *env,
                                         struct err *err);
/* Returns the environment that the command will have. For any thread. */
NODISCARD const char **task_environment(struct arena *a, const struct process_start *in);

/* task_again.c: task_again_keep takes the arena and the text of the request; task_again_bytes returns how much memory that is. */
uint64_t task_again_bytes(const struct req *req);
void task_again_keep(struct task *t, struct req *req, struct process_start *in);
void task_again_drop(struct task *t); /* called when the start was answered or dropped */
/* Called when the start has failed. Returns true when it is tried again: then clients are not told of the failure. */
NODISCARD bool task_start_again(struct task *t, const char *step, int os_errno);
/* Goes on with a start that has waited for the decision about its first program. `denied`: the error for the client; NULL: it may be
 * executed, by the action of task_intercept_is_escalated. */
void task_start_decided(struct task *t, const struct err *denied);
/* Returns whether the start failed because changes on the disk overtook its sandbox plan. */
NODISCARD bool task_is_overtaken(const struct task *t, const char *step, int os_errno);
/* Returns whether a thread is planning the start again. Then the process of the task has not begun. */
bool task_is_planned_again(const struct task *t);

/* Functions of task_wait.c. */
void task_readers_wake(struct task *t); /* called when the process has output or has changed its state */
/* Returns whether a process/read of the client that owns the session waits. */
NODISCARD bool task_has_own_readers(const struct task *t);
void task_waits_wake(struct task *t);   /* called when the process has started, exited or closed */
void task_waiting_fail(struct task *t); /* answers readers and waiters that the id is unknown */

/* Returns a text when the server lost control of the process, or could not read its output; otherwise NULL. */
const char *task_failure(const struct task *t);

/* task_denied.c: task_output_denied returns whether the sandbox is the cause of a failure. Looks at the newest chunks of the
 * retained output, at most DENIED_TEXT_MAX bytes. */
NODISCARD bool task_output_denied(const struct output *o, bool is_offline, int exit_code);
/* task_denials returns what the sandbox has refused according to that output (denial/denials.h): a JSON array on the heap, at
 * most TASK_DENIALS_BYTES long, so that the command cannot make messages to clients large. */
#define TASK_DENIALS_BYTES 2048
NODISCARD char *task_denials(const struct output *o, bool is_offline, int exit_signal);

/* task_exit.c: task_exit_reason returns the reason of an exit. task_exit_signal writes the name of the signal that ended the
 * process, or returns false when no signal did. */
#define TASK_EXIT_SIGNAL_BYTES 16
const char *task_exit_reason(const struct task *t);
NODISCARD bool task_exit_signal(const struct process *p, char ret[static TASK_EXIT_SIGNAL_BYTES]);

/* task_retention.c: called when the output of `t` has grown. Beyond the limit on the output of all tasks, drops the oldest output
 * of other tasks or of `t` itself. */
void task_retention_grew(struct task *t);

/* Functions of task_write.c. */
void task_writes_go_on(struct task *t); /* called when stdin has room or closed, or the process started */
void task_writes_fail(struct task *t);  /* answers waiting writes that the id is unknown */
void write_ids_free(struct write_ids *ids);

/* Functions of task_signal.c. */
void task_signal_silently(struct task *t, int signo, enum spawn_scope scope); /* no request waits for it */
void task_signal_answered(struct task *t, int os_errno);
void task_signals_answer_all(struct task *t); /* called when no result will come */
/* Sends the signals that were asked for before the process began. Called once it has begun. */
void task_signals_send_waiting(struct task *t);

/* task_intercept.c: the server's side of an intercepted command: its socket to the broker (intercept/broker.h), its open questions, and
 * what clients are told of them.
 *
 * A question is open until a client decides, its caller has ended, or the task ends. Open questions belong to the task, not to a
 * connection: a client that resumes the session is told them again. While one is open the limits wallMs and silenceMs stand still.
 * The functions take tasks that are not intercepted, too, unless they say otherwise. */
/* Makes the task an intercepted one. Takes *from. */
void task_intercept_begin(struct task *t, struct interception *from);
void task_intercept_free(struct task *t);

/* Returns whether the task waits for the decision about its first program. Then its process has not begun. */
NODISCARD bool task_intercept_is_asking(const struct task *t);
/* Returns whether the first program runs outside of the sandbox, where nothing is intercepted. */
NODISCARD bool task_intercept_is_escalated(const struct task *t);
/* Opens the question about the first program; `bytes` is the memory that the start keeps meanwhile. Returns 0, or -errno with err: there
 * are too many questions. The task must be intercepted. */
NODISCARD int task_intercept_ask_first(struct task *t, uint64_t bytes, struct err *err);

/* task_intercept_connect makes the socket, and gives the command its descriptors, and its variables in the arena;
 * task_intercept_handed_over is called when the command has been sent on its way, or could not be; task_intercept_disconnect when the
 * start has failed and may be tried again. */
NODISCARD int task_intercept_connect(struct task *t, struct arena *a, struct command_spec *command);
void task_intercept_handed_over(struct task *t);
void task_intercept_disconnect(struct task *t);

void task_intercept_started(struct task *t); /* called when clients know that the process has started */
void task_intercept_pause(struct task *t, bool paused);
void task_intercept_exited(struct task *t); /* called before clients are told of the exit */
/* Called before clients are told that the process has closed: processes that it left behind are denied what would be asked about. */
void task_intercept_closed(struct task *t);
/* Called when the process tree is gone, or the process will never begin: no question stays open. */
void task_intercept_end(struct task *t);
/* Called when a client was attached to the session: tells it the open questions. */
void task_intercept_tell_again(struct task *t);

/* Withdraws the question about the first program. */
void task_intercept_withdraw_first(struct task *t);
/* Returns whether the task's programs have a library that asks about their starts. */
NODISCARD bool task_intercept_is_preloaded(const struct task *t);
/* Writes the member `intercept` of the answer to a start. */
void task_intercept_start_write(struct jsonw *w, const struct task *t);
/* Writes the member `intercepted` of the exit record. */
void task_intercept_exit_write(struct jsonw *w, const struct task *t);

NODISCARD bool task_intercept_holds_limits(const struct task *t); /* is a question open? */

/* task_network.c: a command's managed network: its sockets, which farhand-egress listens on (gate/gate.h), its open questions, and what
 * clients are told of its connections. The functions take tasks without one, too, unless they say otherwise. */
struct process_network;
void task_network_begin(struct task *t,
                        const struct process_network *in); /* gives the task a managed network */
void task_network_free(struct task *t);
/* task_network_connect makes the sockets, or has the keeper make them, and gives the command its variables in the arena; returns 0, or
 * -errno with err for the client. task_network_handed_over is called when the command has been sent on its way, or could not be;
 * task_network_disconnect when the start has failed and may be tried again, and when the task is forgotten. */
NODISCARD int task_network_connect(struct task *t, struct arena *a, struct command_spec *command,
                                   struct err *err);
void task_network_handed_over(struct task *t);
void task_network_disconnect(struct task *t);
/* Called when the process has started: the command reaches from now on what it may. Returns 0, or -errno: the keeper has not sent the
 * sockets. */
NODISCARD int task_network_started(struct task *t);
void task_network_pause(struct task *t, bool paused);
void task_network_exited(struct task *t); /* called before clients are told of the exit */
/* Called before clients are told that the process has closed, and when its tree is gone: ends the network. */
void task_network_closed(struct task *t);
/* Called when a client was attached to the session: asks it the open questions. */
void task_network_ask_again(struct task *t);
/* Write the member `network` of the answer to a start, and the member `connections` of the exit record. */
void task_network_start_write(struct jsonw *w, const struct task *t);
void task_network_exit_write(struct jsonw *w, const struct task *t);

/* task_internal: between the files of a task: its life and notifications (task.c), its start (task_start.c), those who
 * read (task_read.c), those who write or signal (task_write.c). */
#pragma once

#include "server/dispatch.h"
#include "server/task.h"

extern const struct process_events task_process_events;

struct task *task_new(struct session *session, struct slice id);
void task_abandon(struct task *t); /* nothing was begun: its id is free, it is freed */

/* task_start.c: the waiting answer of process/start; `step` NULL: it was cancelled. */
void task_start_succeeded(struct task *t);
void task_start_failed(struct task *t, const char *step, int os_errno);

/* task_read.c */
void task_readers_wake(struct task *t); /* something has changed */
void task_readers_fail(struct task *t); /* the id is no longer known */

/* task_wait.c */
void task_waits_wake(struct task *t);
void task_waits_fail(struct task *t);

/* What clients are told of a process whose keeper was lost. */
#define TASK_FAILURE "the server lost control of the process"

/* task_denied.c: the verdict on a failure, from the newest DENIED_TEXT_MAX bytes of the retained output. Whole chunks. */
NODISCARD bool task_output_denied(const struct output *o, bool is_offline, int exit_code);
/* What that output says was refused: a JSON array on the heap, at most TASK_DENIALS_BYTES of it, since a message to a
 * client may not be as large as a command likes. */
#define TASK_DENIALS_MAX 32
#define TASK_DENIALS_BYTES 2048
NODISCARD char *task_denials(const struct output *o, bool is_offline, int exit_signal);

/* task_write.c */
void task_writes_go_on(struct task *t); /* there is room, or stdin has closed, or the start is done */
void task_writes_fail(struct task *t);  /* the id is no longer known */
void write_ids_free(struct write_ids *ids);

/* task_signal.c */
void task_signal_silently(struct task *t, int signo, enum spawn_scope scope); /* nobody waits */
void task_signal_answered(struct task *t, int os_errno);
void task_signals_answer_all(struct task *t); /* the tree is gone */

/* task_intercept_internal: the state of an intercepted command, for the files that share it: task_intercept.c (its life),
 * task_intercept_socket.c (the socket to its broker) and task_questions.c (its open questions). */
#pragma once

#include "session/exec_question.h"
#include "session/first_program.h"
#include "session/task_internal.h"

#define QUESTION_TOO_LONG "the question is too long for the client"
#define NOBODY_DECIDES "nobody can decide any more"

struct task_intercept {
        struct interception how; /* `frame` is given up when the first program is told or asked about */
        int socket;              /* to the broker; -1: none */
        int broker_socket; /* the broker's end of the socket, until the command is on its way; -1: none */
        struct watch *watch;
        bool is_paused;
        bool is_over;     /* clients are told nothing more: process/closed comes last */
        bool is_handling; /* intercept_handle_frames is at work: what it tells may lead to another call */
        struct buf in, out;
        struct list questions; /* exec_question::link, in order */
        size_t question_count;
        uint64_t last_number; /* the requestId of the newest question */
};

/* ---- task_intercept.c ---- */

/* Returns the client that is told of the task, or NULL. */
struct client *intercept_listener(const struct task *t);
/* Goes on with a start whose first program was decided about. */
void intercept_decide_first(struct task *t, enum intercept_action action, struct slice reason);

/* ---- task_intercept_socket.c: frames from the broker, and answers to it ---- */

void intercept_socket_init(struct task_intercept *i);
/* The broker denies what it has asked about when its socket is closed. */
void intercept_disconnect(struct task_intercept *i);
/* Called when the broker has gone, or has broken the protocol. `why` is for the log; NULL: nothing is logged. */
void intercept_lose_broker(struct task *t, const char *why);
void intercept_set_watch(struct task_intercept *i);
void intercept_on_socket(void *task, unsigned events); /* for the watch */
void intercept_answer(struct task *t, uint32_t id, enum intercept_action action, bool is_remembered,
                      struct slice reason);
void intercept_deny(struct task *t, uint32_t id, const char *reason);
/* Handles the frames that are complete. What a client is told can end its connection, and the task with that; the task is freed at the
 * end of the turn. */
void intercept_handle_frames(struct task *t);
/* Reads once. Returns whether there was something to read. */
bool intercept_read(struct task *t);

/* ---- task_questions.c ---- */

/* Returns why there is no room for one more question, or NULL. */
NODISCARD const char *questions_refuse(const struct task *t, uint64_t bytes);
/* Opens a question, and owns it from then on. */
void question_add(struct task *t, struct exec_question *q);
void question_forget(struct task *t, struct exec_question *q);
/* Removes the question, and tells the client how it ended, unless that client ended it. */
void question_end(struct task *t, struct exec_question *q, const char *decision, const struct client *by);
void questions_withdraw(struct task *t);
NODISCARD struct exec_question *question_of_broker(const struct task_intercept *i, uint32_t id);

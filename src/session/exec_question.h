/* exec_question: a start of a program that waits for a client's decision, and the notification about it. */
#pragma once

#include "base/list.h"
#include "core/client.h"
#include "intercept/message.h"

struct task;

struct exec_question {
        struct list link; /* task_intercept::questions */
        uint64_t number;  /* requestId */
        bool is_first;    /* the command's first program: no broker has asked */
        uint64_t bytes;   /* how much memory the question counts for */
        char *frame;
        struct intercept_question asked; /* points into the frame */
};

/* Makes a question of a frame, which must be good; the bytes are copied. */
NODISCARD struct exec_question *exec_question_new(struct slice frame, uint64_t number, bool is_first);
/* Unlinks and frees. */
void exec_question_free(struct exec_question *q);

/* Sends process/execRequested. `number`: the requestId; 0: null. A report (intercept_question::id is 0) that is too long for this client
 * is cut. Returns false when a question is too long: then nothing was sent. */
bool exec_question_tell(struct client *c, struct slice task_id, uint64_t number, const char *decision,
                        const struct intercept_question *q);

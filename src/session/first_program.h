/* first_program: reads the rules of an intercepted start, and decides about the first program of the command. For threads of the pool,
 * because files are looked at.
 *
 * The broker of a command sees only what is executed below the command's first program. That program itself is decided about here,
 * before anything runs; with `scope: "shell"` it is not decided about.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "intercept/decide.h"
#include "sandbox/exec_pair.h"

struct process_start;

/* How a command is intercepted, and what is to happen with its first program. */
struct interception {
        struct intercept_options options;
        int config; /* what intercept_pack made; -1: none */
        enum exec_asking asking;
        char *wrapper; /* with EXEC_ASKED_BY_SHELL: its path, on the heap */
        char *library; /* the path of the library that is loaded into every program, on the heap; NULL: none is */
        enum intercept_action action; /* INTERCEPT_RUN, INTERCEPT_ESCALATE or INTERCEPT_ASK */
        /* The first program as a frame of intercept/message.h, on the heap: INTERCEPT_MSG_ASK, or INTERCEPT_MSG_TOLD. NULL: nothing
         * was decided. */
        char *frame;
        size_t frame_bytes;
};

#define INTERCEPTION_NONE ((struct interception){ .config = -1 })

/* Fills *ret, which is INTERCEPTION_NONE, and sets `in->program` to the file that is decided about. `env` is the environment of the
 * command. Returns 0, or -errno with `err` for the client: the rules have a mistake, or the program is denied. */
NODISCARD int interception_make(struct arena *a, struct process_start *in, const char *const *env,
                                struct interception *ret, struct err *err);
void interception_release(struct interception *i); /* *i is INTERCEPTION_NONE afterwards */

/* message: what the broker of a command and the server tell each other, over a stream socket, one frame each. Pure: bytes to structs
 * and back. Each side checks what the other sends.
 *
 *     u32 length of what follows | u8 kind | the members
 */
#pragma once

#include "base/buf.h"
#include "base/slice.h"
#include "intercept/decide.h"

enum intercept_kind {
        INTERCEPT_MSG_ASK = 1,   /* broker: the client is to decide */
        INTERCEPT_MSG_TOLD,      /* broker: this was decided; only with options.reports */
        INTERCEPT_MSG_WITHDRAWN, /* broker: the caller of an ASK has ended */
        INTERCEPT_MSG_ANSWER,    /* server: the decision about an ASK */
};

/* ASK and TOLD. The slices point into the frame. */
struct intercept_question {
        uint32_t id;                    /* not 0 in ASK, and not used again by this broker; 0 in TOLD */
        int32_t pid;                    /* of the caller, as the server sees it */
        enum intercept_action action;   /* ASK: INTERCEPT_ASK; TOLD: what was decided */
        enum intercept_action accepted; /* ASK: what a yes means */
        struct slice file, cwd;
        struct slice argv; /* each argument with its NUL */
        uint32_t argc;
        uint64_t omitted_bytes; /* TOLD: bytes of argv that are left out because it is too long */
        struct slice rule_text; /* the name of the text in which the rule stands; p == NULL: no rule */
        uint32_t rule_line;
        struct slice justification; /* p == NULL: none */
};

struct intercept_answer {
        uint32_t id;
        enum intercept_action action; /* run, escalate or deny */
        bool is_remembered;           /* the same file, arguments and cwd get the same answer from now on */
        struct slice reason;          /* for deny; p == NULL: none */
};

struct intercept_message {
        enum intercept_kind kind;
        struct intercept_question question; /* ASK, TOLD */
        struct intercept_answer answer;     /* ANSWER */
        uint32_t withdrawn;                 /* WITHDRAWN: the id */
};

/* Appends a frame. Returns 0, -EMSGSIZE when it would be too long, -ENOBUFS when the ceiling of `out` is reached, or -ENOMEM. */
NODISCARD int intercept_message_write(struct buf *out, const struct intercept_message *m);
/* Reads the first frame of `in`. Returns its length; 0: more bytes are needed; -EBADMSG: this is no frame. */
NODISCARD ssize_t intercept_message_read(struct slice in, struct intercept_message *ret);

/* escalate_socket: the messages between a shell's wrapper and the server that decides what the shell may execute. Pure: bytes to structs
 * and back.
 *
 * The server gives the shell one end of a socket pair and its number in CODEX_ESCALATE_SOCKET. For each program the wrapper
 * (wrapper/main.c) makes a stream, and sends one message of one zero byte and one descriptor, the server's end of the stream. On the
 * stream there are frames: u32 length, least byte first, and JSON:
 *
 *     wrapper   {"file":"/usr/bin/id","argv":["id"],"workdir":"/usr","env":{…}}      what the shell wants to execute
 *     server    {"action":"Run"} | {"action":"Escalate"} | {"action":{"Deny":{"reason":"…"|null}}}
 *     wrapper   {"fds":[0,1,2]}                       after Escalate; the descriptors come with the first byte of the frame
 *     server    {"exit_code":0}
 *
 * Texts that are not UTF-8 have U+FFFD in them; then `fileBase64`, `argvBase64` and `workdirBase64` have the bytes, and `envBase64` the
 * list of all variables as NAME=VALUE, also when the object cannot hold them. What other servers do not know is sent only to a server that
 * says `"farhand":1` with its action: `umask` beside `fds`, more than ESCALATE_PLAIN_FDS descriptors, and {"signal":N} for each
 * signal that the wrapper gets while the program runs. Such a server says `"signal":N` beside `exit_code` for a program that a signal
 * has ended. Members that a side does not know are ignored. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"

#define ESCALATE_VARIABLE "CODEX_ESCALATE_SOCKET"
#define PRELOADED_VARIABLE "FARHAND_EXEC_PRELOAD"       /* intercept/preloaded.h */
#define PRELOADED_STREAM_VARIABLE "FARHAND_EXEC_STREAM" /* the same */
/* The variables that the protocol needs in the shell, and that programs which are run outside do not get. */
#define ESCALATE_VARIABLES                                                                  \
        {                                                                                   \
                ESCALATE_VARIABLE, "EXEC_WRAPPER", "BASH_EXEC_WRAPPER", PRELOADED_VARIABLE, \
                        PRELOADED_STREAM_VARIABLE                                           \
        }
/* The answers ESCALATE_RUN and ESCALATE_ESCALATE of our server, as whole frames. */
#define ESCALATE_RUN_FRAME "\x1c\0\0\0{\"action\":\"Run\",\"farhand\":1}"
#define ESCALATE_ESCALATE_FRAME "\x21\0\0\0{\"action\":\"Escalate\",\"farhand\":1}"
#define ESCALATE_PLAIN_FDS 16
#define ESCALATE_MORE_FDS 250 /* the kernel takes 253 with one message */

/* Returns whether a variable is one of ESCALATE_VARIABLES. */
NODISCARD bool escalate_is_variable(struct slice name);

struct escalate_request {
        struct slice file, workdir; /* `file` as the shell has it: it may be relative to workdir */
        const struct slice *argv;
        size_t argc;
        const struct slice *env; /* each NAME=VALUE */
        size_t env_count;
};

enum escalate_action { ESCALATE_RUN, ESCALATE_ESCALATE, ESCALATE_DENY };

struct escalate_answer {
        enum escalate_action action;
        struct slice reason; /* of ESCALATE_DENY; p == NULL: none */
        bool is_ours;        /* the server has said `"farhand":1`: it knows what other servers do not know */
};

/* What the wrapper says after ESCALATE_ESCALATE: first the descriptors, then signals. */
struct escalate_more {
        int signal;                 /* 0: this is about descriptors */
        int fds[ESCALATE_MORE_FDS]; /* their numbers in the program */
        size_t fd_count;
        int umask; /* -1: not said */
};

struct escalate_result {
        int exit_code;
        int signal; /* 0: none */
};

/* Append a frame. Return 0, or -ENOBUFS when the ceiling of `out` is reached. */
NODISCARD int escalate_request_write(struct buf *out, const struct escalate_request *request);
NODISCARD int escalate_answer_write(struct buf *out, const struct escalate_answer *answer);
NODISCARD int escalate_more_write(struct buf *out, const struct escalate_more *more);
NODISCARD int escalate_result_write(struct buf *out, const struct escalate_result *result);

/* Returns the length of the first frame of `in`, and its text; 0: more bytes are needed; -EBADMSG: it is longer than `max`. */
NODISCARD ssize_t escalate_frame(struct slice in, size_t max, struct slice *ret);

/* Read the text of a frame, behind which BUF_PADDING bytes are readable. Return 0 or -EBADMSG. The structs point into the text and the
 * arena. No text of a request has a NUL in it, and argv may be empty. */
NODISCARD int escalate_request_read(struct arena *a, struct slice text, struct escalate_request *ret);
NODISCARD int escalate_answer_read(struct arena *a, struct slice text, struct escalate_answer *ret);
NODISCARD int escalate_more_read(struct arena *a, struct slice text, struct escalate_more *ret);
NODISCARD int escalate_result_read(struct arena *a, struct slice text, struct escalate_result *ret);

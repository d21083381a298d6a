/* unified_request: what one line to `farhand unified` asks for. Pure functions.
 *
 *     {"id":1,"tool":"exec_command","arguments":{"cmd":"ls"}}
 *     {"id":2,"cancel":1}
 *     {"answer":{"question_id":7,"decision":"approved"}}
 */
#pragma once

#include "approve/approve.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "unified/unified.h"

enum request_kind {
        REQUEST_CALL, /* a call of the table: tool and arguments */
        REQUEST_LIST_SESSIONS,
        REQUEST_LIST_GRANTS,
        REQUEST_CANCEL,
        REQUEST_ANSWER,
};

struct request {
        enum request_kind kind;
        const char *id; /* an integer or a string as JSON, always spelled the same way; NULL: none */
        enum unified_tool tool;
        struct slice arguments; /* JSON; points into the line */
        const char *cancelled;  /* REQUEST_CANCEL: the id of the call */
        uint64_t question_id;   /* REQUEST_ANSWER */
        enum approval_answer answer;
};

/* Reads a line, which must have BUF_PADDING readable bytes behind it. Texts are in the arena or in the line. Returns 0, or -EINVAL with *err
 * filled; then ret->id is set if the line has a good one. */
NODISCARD int request_read(struct arena *a, struct slice line, struct request *ret, struct err *err);

/* err: an error with words, for what can reach a user or a client.
 *
 * Filled only on failure; success leaves it alone. No allocation: an error path must not fail. Leaf functions return
 * -errno; where the text matters the last parameter is `struct err *err` and the return value is err's code.
 */
#pragma once

#include "base/compat.h"

#define ERR_TEXT_BYTES 4400 /* room for a path and a sentence */

struct err {
        int code;           /* -errno style, never 0 once set */
        int rpc;            /* JSON-RPC code that the server will answer with; 0 = none chosen */
        int os_errno;       /* the errno to show in error.data; 0 = none */
        const char *step;   /* what was being done: a literal, or NULL */
        const char *reason; /* a word for programs: a literal, or NULL */
        const char *remedy; /* a sentence for people: a literal, or NULL */
        const char *limit;  /* the name of a limit that was reached: a literal, or NULL */
        uint64_t limit_value;
        char text[ERR_TEXT_BYTES];
};

#define ERR_INIT ((struct err){ 0 })

/* Each returns `code`, so that `return err_set(…)` reads well. A text that does not fit is cut, between characters.
 * Both leave step, reason, remedy and os_errno as they are: those may be set before or after. */
int err_set(struct err *err, int rpc, int code, const char *fmt, ...) PRINTF_LIKE(4, 5);
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3); /* puts "context: " in front */

/* "ENOENT" for 2 (or -2); "E123" style for unknown numbers, in a static buffer per thread. */
const char *errno_name(int e);
/* The texts that clients of the reference see (those of musl): "No such file or directory", "I/O error", … */
const char *errno_text(int e);

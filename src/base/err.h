/* err: an error with a text, for errors that a user or a client sees.
 *
 * A function fills the struct only when it fails. Nothing is allocated, so that reporting an error cannot fail. Leaf functions
 * return -errno; where the text matters the last parameter is `struct err *err` and the return value is err->code.
 */
#pragma once

#include "base/compat.h"
#include "base/errno_text.h"

#define ERR_TEXT_BYTES 4400 /* room for a path and a sentence */

struct err {
        int code;           /* -errno style, never 0 once set */
        int client_code;    /* the number that a client sees (wire/rpc.h); 0: none was chosen */
        int os_errno;       /* the errno to show in error.data; 0 = none */
        const char *step;   /* what was being done: a literal, or NULL */
        const char *reason; /* a word for programs: a literal, or NULL */
        const char *remedy; /* a sentence for people: a literal, or NULL */
        const char *limit;  /* the name of a limit that was reached: a literal, or NULL */
        uint64_t limit_value;
        char text[ERR_TEXT_BYTES];
};

#define ERR_INIT ((struct err){ 0 })

/* Both return the code, so that a caller can write `return err_set(…)`. A text that does not fit is cut between characters.
 * Both leave step, reason, remedy and os_errno alone: a caller may set those before or after. */
int err_set(struct err *err, int client_code, int code, const char *fmt, ...) PRINTF_LIKE(4, 5);
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3); /* puts "context: " in front */

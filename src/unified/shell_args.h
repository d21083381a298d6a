/* shell_args: the arguments of the tool shell, with the errors that its clients know. Pure. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "wire/json.h"

#define SHELL_TIMEOUT_MS 10000

struct shell_args {
        const char *command;
        const char *workdir;
        uint64_t timeout_ms;
        bool login;
        const char *environment_id; /* NULL: the primary environment */
};

/* Decodes `arguments`. Unknown members are ignored, and null is the same as no member where the member may be missing. Returns 0, or
 * -EINVAL with a sentence in err->text. */
NODISCARD int shell_args_decode(struct arena *a, const struct json_doc *d, const struct json *arguments,
                                struct shell_args *ret, struct err *err);

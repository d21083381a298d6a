/* environments_add: adds an environment to the text of a file environments.toml. Pure.
 *
 * What is in the text stays byte for byte, but for the value of `default` where that changes.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct environment_addition {
        const char *id;
        const char *url, *program; /* exactly one of them */
        const char *const *args;   /* beside a program */
        size_t arg_count;
        const char *token_file, *token_env; /* NULL: none */
        bool is_default;
};

/* *ret_text is in the arena. `path` is the file, for error texts and for relative paths. A text that cannot be read before or
 * afterwards is refused: so every rule of environments_parse holds for what is added. Returns 0 or -errno. */
NODISCARD int environments_add(struct arena *a, struct slice text, const char *path,
                               const struct environment_addition *add, struct slice *ret_text,
                               struct err *err);

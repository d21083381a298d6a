/* environments_add: adds an environment to the text of a file environments.toml, without any system call.
 *
 * The bytes of the old text stay as they are, except for the value of `default` when that changes.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct environment_addition {
        const char *id;
        const char *url, *program; /* exactly one of the two is set; the other is NULL */
        const char *const *args;   /* the arguments of the program */
        size_t arg_count;
        const char *token_file, *token_env; /* NULL: the entry gets no such key */
        bool is_default;
};

/* Adds `add` to `text` and writes the new text, in the arena, to *ret_text. `path` is the file, for error texts and for relative
 * paths. The text is refused when environments_parse refuses it before or after the addition. Returns 0 or -errno. */
NODISCARD int environments_add(struct arena *a, struct slice text, const char *path,
                               const struct environment_addition *add, struct slice *ret_text,
                               struct err *err);

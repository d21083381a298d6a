/* args: the arguments of the tools exec_command, write_stdin and apply_patch: their types, defaults and bounds.
 *
 * Pure functions. A decoded struct points into the arena and into the JSON text. A time that is out of bounds is clamped, not refused; the
 * fraction of a number is cut off.
 */
#pragma once

#include "approve/approve.h"
#include "base/arena.h"
#include "base/err.h"
#include "wire/json.h"

/* The window of a call: its default, and the bounds for calls that start a command or write. */
#define EXEC_YIELD_MS 10000
#define WRITE_YIELD_MS 250
#define YIELD_LEAST_MS 250
#define YIELD_MOST_MS 30000
/* The bounds for a poll, which is a call of write_stdin without input. */
#define POLL_LEAST_MS 5000
#define POLL_MOST_MS 300000
/* How much output a call returns when it does not say how much. */
#define OUTPUT_TOKENS 10000

enum unified_tool {
        UNIFIED_EXEC_COMMAND,
        UNIFIED_WRITE_STDIN,
        UNIFIED_APPLY_PATCH,
        UNIFIED_SHELL,
        UNIFIED_READ_FILE,
        UNIFIED_WRITE_FILE,
        UNIFIED_LIST_DIRECTORY,
        UNIFIED_VIEW_IMAGE
};
const char *unified_tool_name(enum unified_tool tool);
/* Returns false when there is no tool of that name. */
NODISCARD bool unified_tool_find(struct slice name, enum unified_tool *ret);

struct exec_args {
        const char *cmd;
        const char *workdir; /* NULL: the default */
        bool tty;
        uint64_t yield_ms; /* clamped */
        uint64_t max_output_tokens;
        const char *shell; /* NULL: the shell of the environment */
        bool has_login, login;
        const char *environment_id; /* NULL: the primary environment */
        enum approval_wish wish;
        const char *justification;
        const char *additional_permissions; /* JSON of an object; NULL: none */
};

struct write_args {
        int64_t session_id;
        struct slice chars; /* empty: a poll */
        uint64_t yield_ms;  /* clamped */
        uint64_t max_output_tokens;
};

struct patch_args {
        struct slice input;
        const char *workdir, *environment_id; /* NULL: the default */
        enum approval_wish wish;
        const char *justification;
        const char *additional_permissions;
};

/* Decode `arguments`, an object. Return 0, or -EINVAL with a sentence in err->text. */
NODISCARD int args_decode_exec(struct arena *a, const struct json_doc *d, const struct json *arguments,
                               struct exec_args *ret, struct err *err);
/* `poll_most_ms` is the upper bound of a poll; values below POLL_LEAST_MS count as POLL_LEAST_MS. */
NODISCARD int args_decode_write(struct arena *a, const struct json_doc *d, const struct json *arguments,
                                uint64_t poll_most_ms, struct write_args *ret, struct err *err);
NODISCARD int args_decode_patch(struct arena *a, const struct json_doc *d, const struct json *arguments,
                                struct patch_args *ret, struct err *err);

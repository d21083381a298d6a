/* env: the environment of a child (PROTOCOL.md 6.9). Pure.
 *
 * Without a policy a child gets exactly what the request names. With one, the server's own environment is filtered and
 * the request laid over it. Secrets of the server itself never pass, from any source.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

struct env_var {
        struct slice name, value;
};

enum env_inherit { ENV_INHERIT_CORE, ENV_INHERIT_ALL, ENV_INHERIT_NONE };

struct env_policy {
        enum env_inherit inherit;
        bool ignore_default_excludes;
        struct slice *exclude;
        size_t exclude_count;
        struct env_var *set;
        size_t set_count;
        struct slice *include_only;
        size_t include_only_count;
};

/* The child's environment as a NULL-terminated list of "NAME=VALUE" in the arena. `policy` may be NULL. `inherited` is
 * the server's environ. `default_shell`: SHELL for a terminal whose environment has none, or NULL. Names and values must
 * not hold NULs (checked by the caller). A later variable of the same name replaces an earlier one. */
NODISCARD const char **env_build(struct arena *a, const struct env_policy *policy,
                                 const char *const *inherited, const struct env_var *request,
                                 size_t request_count, const char *default_shell);

/* Takes the server's secrets out of its own environment and wipes their memory, so that no child reads them in
 * /proc/PID/environ. Call it before the first fork. */
void env_scrub(char **environment);

/* The value of a variable in such a list, or NULL. */
const char *env_get(const char *const *env, const char *name);

/* A variable that is the server's own secret: never passed on, from any source. */
NODISCARD bool env_is_server_name(struct slice name);

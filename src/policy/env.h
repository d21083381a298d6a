/* env: builds the environment of a child (docs/PROTOCOL.md). Pure.
 *
 * Without a policy a child gets exactly the variables of the request. With a policy it gets the server's environment,
 * filtered, with the variables of the request on top. The server's own secrets are never passed on.
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
        bool ignores_default_excludes;
        struct slice *exclude;
        size_t exclude_count;
        struct env_var *set;
        size_t set_count;
        struct slice *include_only;
        size_t include_only_count;
};

/* Returns the child's environment as a NULL-terminated list of "NAME=VALUE" in the arena. `policy` may be NULL. `inherited` is
 * the server's environ. `default_shell` is the SHELL for a terminal whose environment has none, or NULL. Names and values must
 * not hold NULs (checked by the caller). A later variable of the same name replaces an earlier one. */
NODISCARD const char **env_build(struct arena *a, const struct env_policy *policy,
                                 const char *const *inherited, const struct env_var *request,
                                 size_t request_count, const char *default_shell);

/* Takes the server's secrets out of its own environment and wipes their memory, so that no child reads them in
 * /proc/PID/environ. Call it before the first fork. */
void env_scrub(char **environment);

/* Returns the value of a variable in a list as env_build returns it, or NULL. */
const char *env_get(const char *const *env, const char *name);

/* Does the policy pass a variable of this name on, when the request does not name it? Without a policy (NULL) every variable
 * passes except the server's secrets. */
NODISCARD bool env_admits(const struct env_policy *policy, struct slice name);

/* Returns the TMPDIR of a child with this cwd as an absolute path; a relative value is below the cwd. Empty when TMPDIR is
 * unset or empty. */
NODISCARD struct slice env_tmpdir(struct arena *a, const char *value, struct slice cwd);

/* Is this variable a secret of the server, which is never passed on? */
NODISCARD bool env_is_server_name(struct slice name);

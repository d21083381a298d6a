/* sandbox_state: reads the params of codex/sandbox-state/update. */
#include "mcp/sandbox_state.h"

#include "approve/permissions.h"
#include "base/limits.h"
#include "base/mem.h"

/* Returns the directory, or NULL when it is not an absolute path. */
static const char *read_directory(struct arena *a, const struct json_doc *d, const struct json *v)
{
        if (!v || v->type != JSON_STRING)
                return NULL;
        struct slice path = json_string(a, d, v);
        bool is_good =
                slice_starts(path, S("/")) && !slice_has_nul(path) && path.n <= LIMIT_UNIFIED_PATH_BYTES;
        return is_good ? arena_dup(a, path) : NULL;
}

/* The program that would make the sandbox elsewhere, and how: we have our own, but what is said must make sense. */
static bool is_rest_good(const struct json_doc *d, const struct json *params)
{
        const struct json *program = json_get(d, params, S("codexLinuxSandboxExe")),
                          *how = json_get(d, params, S("useLinuxSandboxBwrap"));
        return (!program || program->type == JSON_STRING || program->type == JSON_NULL) &&
               (!how || how->type == JSON_TRUE || how->type == JSON_FALSE);
}

bool sandbox_state_read(struct arena *a, const struct json_doc *d, const struct json *params,
                        struct sandbox_state *ret)
{
        const struct json *policy = json_get(d, params, S("sandboxPolicy"));
        const char *cwd = read_directory(a, d, json_get(d, params, S("sandboxCwd")));
        const char *const *more;
        struct err err = ERR_INIT;
        _free_ char *profile = NULL;
        size_t count = 0;
        if (!cwd || !policy || !is_rest_good(d, params) ||
            permissions_of_policy(a, d, policy, cwd, &profile, &more, &err) < 0)
                return false;
        while (more[count])
                count++;
        const char **roots = arena_zalloc(a, (count + 2) * sizeof(*roots));
        roots[0] = cwd;
        memcpy(roots + 1, more, count * sizeof(*roots));
        *ret = (struct sandbox_state){ arena_dup(a, slice_from_str(profile)), roots };
        return true;
}

/* command_args: makes a struct farhand_command from the options of the command line. */
#include "cli/command_args.h"

#include "approve/permissions.h"
#include "base/buf.h"
#include "base/errno_text.h"
#include "base/fd.h"
#include "base/mem.h"
#include "wire/json.h"

#include <errno.h>
#include <unistd.h>

#define PROFILE_MAX (1024 * 1024)

/* On this machine a command gets all variables of a private server, which are ours. On other machines it gets those of the server
 * that do not look like secrets. */
static const char policy_local[] =
        "{\"inherit\":\"all\",\"ignoreDefaultExcludes\":true,\"exclude\":[],\"set\":{},\"includeOnly\":[]}";

/* The background server has the variables of the command that started it. A command gets our variables instead. */
static const char policy_background[] =
        "{\"inherit\":\"none\",\"ignoreDefaultExcludes\":true,\"exclude\":[],\"set\":{},\"includeOnly\":[]}";

/* ---- variables ---- */

/* Adds NAME=VALUE, and replaces a variable with the same name. */
static void put(const char **env, size_t *n, const char *item)
{
        size_t name = strcspn(item, "=") + 1;
        for (size_t i = 0; i < *n; i++)
                if (strncmp(env[i], item, name) == 0) {
                        env[i] = item;
                        return;
                }
        env[(*n)++] = item;
}

static const char *const *make_env(const struct command_args *c, struct remote *r, bool wants_terminal)
{
        static const char *const travelling[] = { "TERM", "LANG", "LC_ALL", "LC_CTYPE" };
        size_t n = 0, ours = 0;
        while (r->is_background && environ[ours])
                ours++;
        const char **env =
                arena_alloc(&r->arena, (ours + c->env.count + ARRAY_LEN(travelling) + 1) * sizeof(*env));
        for (size_t i = 0; i < ours; i++)
                if (strchr(environ[i], '=') &&
                    strncmp(environ[i], "FARHAND_TOKEN=", strlen("FARHAND_TOKEN=")) != 0)
                        put(env, &n, environ[i]);
        for (size_t i = 0; wants_terminal && i < ARRAY_LEN(travelling); i++) {
                const char *value = getenv(travelling[i]);
                if (value)
                        put(env, &n, arena_printf(&r->arena, "%s=%s", travelling[i], value));
        }
        for (size_t i = 0; i < c->env.count; i++) {
                const char *item = c->env.items[i], *value = strchr(item, '=') ? NULL : getenv(item);
                if (strchr(item, '='))
                        put(env, &n, item);
                else if (value)
                        put(env, &n, arena_printf(&r->arena, "%s=%s", item, value));
        }
        env[n] = NULL;
        return env;
}

/* ---- the directory ---- */

int command_args_cwd(const struct command_args *c, struct remote *r, const char **ret)
{
        if (c->cwd && c->cwd[0] == '/') {
                *ret = c->cwd;
                return 0;
        }
        if (!remote_is_local(r)) {
                *ret = NULL;
                if (!c->cwd)
                        return 0;
                remote_say(r, "-C %s: the directory on another machine must be an absolute path", c->cwd);
                return -EINVAL;
        }
        char *here = getcwd(NULL, 0);
        if (!here) {
                remote_say(r, "no working directory: %s", errno_text(errno));
                return -errno;
        }
        *ret = c->cwd ? arena_printf(&r->arena, "%s/%s", here, c->cwd)
                      : arena_dup(&r->arena, slice_from_str(here));
        free(here);
        return 0;
}

/* ---- the sandbox ---- */

/* Reads the profile of --profile into `file`, and checks that the text is one JSON value, because it is sent to the server
 * unchanged. */
static int read_profile(const struct command_args *c, struct remote *r, struct buf *file)
{
        struct json_doc doc;
        struct json_error bad;
        int result = fd_read_file(c->profile_file, PROFILE_MAX, file);
        if (result < 0) {
                remote_say(r, "--profile %s: %s", c->profile_file, errno_text(result));
                return result;
        }
        if (json_parse(&r->arena, buf_slice(file), &doc, &bad) < 0) {
                remote_say(r, "--profile %s: %s", c->profile_file, bad.text);
                return -EINVAL;
        }
        return 0;
}

int command_args_permissions(const struct command_args *c, struct remote *r, const char **ret)
{
        *ret = NULL;
        int modes = c->is_read_only + c->is_workspace_write + (c->profile_file != NULL);
        if (modes > 1) {
                remote_say(r, "only one of --profile, --read-only and --workspace-write can be used");
                return -EINVAL;
        }
        if (modes == 0)
                return 0;
        _buf_ struct buf file = BUF_INIT(PROFILE_MAX);
        int result = c->profile_file ? read_profile(c, r, &file) : 0;
        if (result < 0)
                return result;
        _free_ char *usual =
                c->profile_file ? NULL : permissions_usual(c->is_workspace_write, c->has_network);
        *ret = arena_dup(&r->arena, usual ? slice_from_str(usual) : buf_slice(&file));
        return 0;
}

int command_args_sandbox(const struct command_args *c, struct remote *r, const struct farhand *f,
                         const char *cwd, const char **ret)
{
        const char *permissions;
        int result = command_args_permissions(c, r, &permissions);
        if (result < 0)
                return result;
        _free_ char *path = permissions && cwd ? farhand_path_json(f, cwd) : NULL;
        _free_ char *text = permissions ? permissions_sandbox(permissions, path, NULL) : NULL;
        *ret = text ? arena_dup(&r->arena, slice_from_str(text)) : NULL;
        return 0;
}

/* ---- limits ---- */

bool command_args_check(struct command_args *c)
{
        static const char *const names[] = { "silence", "cpu", "files", "processes", "file-size" };
        c->limit = (struct farhand_limits)FARHAND_LIMITS_INIT;
        c->limit.wall_ms = c->timeout_sec * 1000;
        c->limit.memory_bytes = c->memory_bytes;
        uint64_t *const targets[] = { &c->limit.silence_ms, &c->limit.cpu_seconds, &c->limit.open_files,
                                      &c->limit.processes, &c->limit.file_bytes };
        for (size_t i = 0; i < c->limits.count; i++) {
                struct slice value = slice_from_str(c->limits.items[i]), name = slice_split(&value, '=');
                size_t which = slice_find(name, names, ARRAY_LEN(names));
                uint64_t number = 0;
                if (which == ARRAY_LEN(names) || !value.p ||
                    slice_to_u64(value, INT64_MAX / 1000, &number) < 0 || number == 0) {
                        (void)args_refuse(
                                "limit", c->limits.items[i],
                                "silence, cpu, files, processes or file-size, = and a number above 0");
                        return false;
                }
                *targets[which] = targets[which] == &c->limit.silence_ms ? number * 1000 : number;
        }
        return true;
}

void command_args_release(struct command_args *c)
{
        arg_list_release(&c->env);
        arg_list_release(&c->limits);
}

static int apply_limits(const struct command_args *c, struct remote *r, const struct farhand *f,
                        struct farhand_command *ret)
{
        if (c->timeout_sec == 0 && c->memory_bytes == 0 && c->limits.count == 0)
                return 0;
        if (!farhand_has_capability(f, "processControlV1")) {
                remote_say(r, "this server knows no limits: --timeout, --memory and --limit cannot be kept");
                return -EOPNOTSUPP;
        }
        ret->limit = &c->limit;
        return 0;
}

int command_args_apply(const struct command_args *c, struct remote *r, const struct farhand *f,
                       bool wants_terminal, struct farhand_command *ret)
{
        int result = command_args_cwd(c, r, &ret->cwd);
        if (result == 0)
                result = command_args_sandbox(c, r, f, ret->cwd, &ret->sandbox);
        if (result == 0)
                result = apply_limits(c, r, f, ret);
        if (result < 0)
                return result;
        ret->env = make_env(c, r, wants_terminal);
        ret->env_policy = r->is_background ? policy_background : remote_is_local(r) ? policy_local : NULL;
        return 0;
}

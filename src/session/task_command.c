/* task_command: makes what a process/start executes: program, arguments, environment, limits and sandbox. */
#include "base/log.h"
#include "core/environment.h"
#include "core/server.h"
#include "policy/env.h"
#include "proto/linux_sandbox.h"
#include "proto/process.h"
#include "session/task_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where a program without a slash in its name is searched when the child has no PATH. */
#define DEFAULT_PATH "/usr/local/bin:/bin:/usr/bin"
#define ENV_STRING_MAX (128 * KIB) /* MAX_ARG_STRLEN: execve refuses longer strings */

static int exec_failed(int e, struct err *err)
{
        err->step = "exec";
        err->os_errno = e;
        return err_set(err, RPC_INTERNAL, -e, "%s (os error %d)", errno_text(e), e);
}

static uint64_t vars_bytes(const struct env_var *vars, size_t count)
{
        uint64_t sum = 0;
        for (size_t i = 0; i < count; i++)
                sum += vars[i].name.n + vars[i].value.n;
        return sum;
}

/* Refuses a request that is too large for the spawner. It would be too large for execve as well. */
static int check_size(const struct process_start *in, struct err *err)
{
        uint64_t sum = in->arg0.n + in->cwd.n + vars_bytes(in->env, in->env_count);
        for (size_t i = 0; i < in->argc; i++)
                sum += in->argv[i].n;
        if (in->has_env_policy)
                sum += vars_bytes(in->env_policy.set, in->env_policy.set_count);
        return sum > SPAWN_REQUEST_MAX ? exec_failed(E2BIG, err) : 0;
}

int task_command_check(const struct process_start *in, struct err *err)
{
        int r = check_size(in, err);
        if (r < 0)
                return r;
        if (in->argv[0].n == 0)
                return err_set(err, RPC_INTERNAL, -EINVAL, "missing program for %s spawn",
                               in->is_tty ? "PTY" : "pipe");
        bool has_nul = slice_has_nul(in->arg0);
        for (size_t i = 0; i < in->argc; i++)
                has_nul = has_nul || slice_has_nul(in->argv[i]);
        if (has_nul)
                return err_set(err, RPC_INTERNAL, -EINVAL, "nul byte found in provided data");
        for (size_t i = 0; i < in->env_count; i++)
                has_nul = has_nul || slice_has_nul(in->env[i].name) || slice_has_nul(in->env[i].value);
        if (in->has_env_policy)
                for (size_t i = 0; i < in->env_policy.set_count; i++)
                        has_nul = has_nul || slice_has_nul(in->env_policy.set[i].name) ||
                                  slice_has_nul(in->env_policy.set[i].value);
        if (has_nul)
                return err_set(err, RPC_INTERNAL, -EINVAL, "data provided contains a nul byte");
        return 0;
}

static const char **make_argv(struct arena *a, const struct process_start *in)
{
        const char **argv = arena_alloc(a, (in->argc + 1) * sizeof(*argv));
        for (size_t i = 0; i < in->argc; i++)
                argv[i] = arena_dup(a, in->argv[i]);
        argv[in->argc] = NULL;
        if (in->arg0.p)
                argv[0] = arena_dup(a, in->arg0);
        return argv;
}

/* Returns the paths at which the program may be. A name with a slash is a path, relative to the cwd; a name without a slash is
 * searched in the PATH of the child. */
static const char **make_candidates(struct arena *a, struct slice program, const char *path)
{
        if (memchr(program.p, '/', program.n)) {
                const char **one = arena_alloc(a, 2 * sizeof(*one));
                one[0] = arena_dup(a, program);
                one[1] = NULL;
                return one;
        }
        struct slice rest = slice_from_str(path);
        size_t max = 2;
        for (size_t i = 0; i < rest.n; i++)
                max += rest.p[i] == ':';
        const char **list = arena_alloc(a, max * sizeof(*list));
        size_t n = 0;
        while (rest.p) {
                struct slice dir = slice_split(&rest, ':');
                dir = dir.n ? dir : S("."); /* an empty entry of PATH is the cwd */
                list[n++] = arena_printf(a, "%.*s/%.*s", SLICE(dir), SLICE(program));
        }
        list[n] = NULL;
        return list;
}

/* Refuses names and PATHs that execve would refuse as too long, before make_candidates multiplies their lengths. */
static int check_search(struct slice program, const char *path, struct err *err)
{
        if (memchr(program.p, '/', program.n))
                return 0;
        int e = program.n > NAME_MAX ? ENAMETOOLONG : strlen(path) >= ENV_STRING_MAX ? E2BIG : 0;
        return e == 0 ? 0 : exec_failed(e, err);
}

struct spawn_limits task_kernel_limits(const struct process_limits *l)
{
        return (struct spawn_limits){
                .cpu_seconds = l->cpu_seconds,
                .memory_bytes = l->memory_bytes,
                .open_files = l->open_files,
                .file_bytes = l->file_bytes,
                .processes = l->processes,
        };
}

const char **task_environment(struct arena *a, const struct process_start *in)
{
        return env_build(a, in->has_env_policy ? &in->env_policy : NULL, (const char *const *)environ,
                         in->env, in->env_count, in->is_tty ? environment_shell() : NULL);
}

const char *task_search_path(const char *const *env)
{
        const char *path = env_get(env, "PATH");
        return path ? path : DEFAULT_PATH;
}

int task_command_make(struct arena *a, const struct process_start *in, struct command_spec *ret,
                      struct err *err)
{
        const char *const *env = (const char *const *)task_environment(a, in);
        const char *path = task_search_path(env);
        int r = check_search(in->argv[0], path, err);
        if (r < 0)
                return r;
        const char **candidates = make_candidates(a, in->argv[0], path);
        if (in->program.p) {
                candidates[0] = arena_dup(a, in->program);
                candidates[1] = NULL;
        }
        *ret = (struct command_spec){
                .argv = make_argv(a, in),
                .env = env,
                .candidates = candidates,
                .cwd = in->cwd.p,
                .is_tty = in->is_tty,
                .limits = task_kernel_limits(&in->limits),
                .wants_cgroup = true,
        };
        return 0;
}

/* Returns the candidate that execvp would execute: the first one that can be executed. When there is none, the first one that exists:
 * its error is what execvp would tell. */
static const char *choose(struct arena *a, const char *const *candidates, struct slice cwd)
{
        const char *existing = NULL;
        for (const char *const *c = candidates; *c; c++) {
                struct stat st;
                const char *path = (*c)[0] == '/' ? *c : arena_printf(a, "%.*s/%s", SLICE(cwd), *c);
                if (stat(path, &st) < 0)
                        continue;
                if (S_ISREG(st.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0)
                        return *c;
                existing = existing ? existing : *c;
        }
        return existing ? existing : candidates[0];
}

int task_program_find(struct arena *a, const struct process_start *in, const char *const *env,
                      struct slice *ret, struct err *err)
{
        const char *path = task_search_path(env);
        int r = check_search(in->argv[0], path, err);
        if (r == 0)
                *ret = slice_from_str(choose(a, make_candidates(a, in->argv[0], path), in->cwd));
        return r;
}

/* --- commands that the client wraps ------------------------------------------------------------------------------- */

/* Returns true only when the program certainly does not exist; a program that stat cannot reach may exist. */
static bool is_missing(struct arena *a, const char *candidate, struct slice cwd)
{
        struct stat st;
        const char *path =
                candidate[0] == '/' ? candidate : arena_printf(a, "%.*s/%s", SLICE(cwd), candidate);
        return stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

int task_replace_linux_sandbox(struct arena *a, struct process_start *in, const char *const *env,
                               struct err *err)
{
        const char *path = task_search_path(env);
        struct linux_sandbox w;
        if (check_search(in->argv[0], path, err) < 0)
                return 0; /* the start will fail with this error */
        for (const char **c = make_candidates(a, in->argv[0], path); *c; c++)
                if (!is_missing(a, *c, in->cwd))
                        return 0;
        int r = linux_sandbox_decode(a, in->argv, in->argc, &w, err);
        if (r < 0) {
                err->reason = "sandboxUnavailable";
                err->remedy =
                        "this program is not on the server's machine, and the server does in its place what "
                        "it understands";
                return r;
        }
        in->argv += w.command_at;
        in->argc -= w.command_at;
        in->arg0 = (struct slice){ 0 }; /* arg0 was for codex-linux-sandbox */
        in->has_sandbox = true;
        in->sandbox = w.context;
        if (w.command_cwd.p)
                in->cwd = w.command_cwd;
        const char *why = process_start_enforce_network(in);
        return why ? err_set(err, RPC_INVALID_PARAMS, -ENOTSUP, "%s", why) : 0;
}

/* --- the sandbox -------------------------------------------------------------------------------------------------- */

static bool can_enter(const char *path)
{
        struct stat st;
        return stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
               faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

int task_confine(struct server *s, struct arena *a, const struct process_start *in, const char *const *env,
                 struct guarded *ret, struct err *err)
{
        struct slice tmpdir = env_tmpdir(a, env_get(env, "TMPDIR"), in->cwd);
        struct place place = sandbox_context_place(&in->sandbox, in->cwd, tmpdir);
        struct plan plan;
        int r = confine_make(&s->confine, a, &in->sandbox.profile, &place, ret, &plan, err);
        if (r == 0) {
                ret->has_cwd = can_enter(in->cwd.p);
                return 0;
        }
        bool is_profile = err->step != NULL; /* otherwise the server has run out of a resource */
        err->client_code = is_profile ? RPC_INVALID_PARAMS : RPC_INTERNAL;
        if (is_profile && !err->reason) /* with a reason, the machine is the cause and the text is complete */
                (void)err_wrap(err, "failed to prepare process sandbox");
        err->reason = is_profile ? "sandboxUnavailable" : NULL;
        return r;
}

/* process: decodes the params of the process methods. The server makes the checks that need the session or the system.
 *
 * Strings of argv and env may hold NULs here: the reference server answers NULs with another code, after its other checks.
 */
#include "proto/process.h"

#include "base/limits.h"
#include "proto/sandbox.h"

#include <errno.h>
#include <signal.h>

/* The most bytes of patterns, and of patterns times names, which is what matching costs at worst; more is -32602. Real policies
 * have a dozen patterns. */
#define PATTERN_BYTES_MAX (8 * KIB)
#define PATTERN_WORK_MAX (1 * MIB)

static void decode_process_id(struct decoder *d, struct slice *ret)
{
        decode_string(d, "processId", ret);
        if (ret->n > LIMIT_PROCESS_ID_BYTES)
                decode_fail(d, "processId must be at most %d bytes", LIMIT_PROCESS_ID_BYTES);
}

/* --- process/start ------------------------------------------------------------------------------------------------ */

/* Refuses a name with a `=`: the child would take a variable with the name "A=B" for the variable A, which a policy may exclude. */
static void check_name(struct decoder *d, const char *key, struct slice name)
{
        if (name.n == 0)
                decode_fail(d, "%s: the name of a variable must not be empty", key);
        else if (memchr(name.p, '=', name.n))
                decode_fail(d, "%s: the name of a variable must not contain `=`", key);
}

static void decode_vars(struct decoder *d, const char *key, struct env_var **ret, size_t *ret_count)
{
        struct string_pair *pairs = NULL;
        size_t n = 0;

        decode_string_map(d, key, &pairs, &n);
        if (d->has_failed)
                return;
        struct env_var *vars = arena_alloc(d->arena, MAX(n, (size_t)1) * sizeof(*vars));
        for (size_t i = 0; i < n; i++) {
                vars[i] = (struct env_var){ .name = pairs[i].key, .value = pairs[i].value };
                check_name(d, key, vars[i].name);
        }
        *ret = vars;
        *ret_count = n;
}

static uint64_t pattern_bytes(const struct slice *patterns, size_t count)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < count; i++)
                sum += patterns[i].n + 1;
        return sum;
}

static void check_policy_cost(struct decoder *d, const struct env_policy *policy)
{
        uint64_t excludes = pattern_bytes(policy->exclude, policy->exclude_count);
        uint64_t includes = pattern_bytes(policy->include_only, policy->include_only_count);
        uint64_t names = 0;

        for (size_t i = 0; i < policy->set_count; i++)
                names += policy->set[i].name.n + 1;
        if (excludes > PATTERN_BYTES_MAX || includes > PATTERN_BYTES_MAX ||
            names > PATTERN_WORK_MAX / (includes + 1))
                decode_fail(d, "envPolicy has too many patterns");
}

static void decode_env_policy(struct decoder *outer, const struct json *value, struct env_policy *ret)
{
        static const char *const inherits[] = {
                [ENV_INHERIT_CORE] = "core",
                [ENV_INHERIT_ALL] = "all",
                [ENV_INHERIT_NONE] = "none",
        };
        struct decoder d;
        size_t inherit = 0;

        decode_begin_inside(&d, outer, value, "ExecEnvPolicy");
        decode_variant(&d, "inherit", inherits, ARRAY_LEN(inherits), &inherit);
        decode_bool(&d, "ignoreDefaultExcludes", &ret->ignores_default_excludes);
        decode_strings(&d, "exclude", &ret->exclude, &ret->exclude_count);
        decode_vars(&d, "set", &ret->set, &ret->set_count);
        decode_strings(&d, "includeOnly", &ret->include_only, &ret->include_only_count);
        if (!d.has_failed)
                check_policy_cost(&d, ret);
        ret->inherit = (enum env_inherit)inherit;
        decode_end_inside(outer, &d);
}

static void check_metadata(struct decoder *outer, const struct json *value)
{
        struct decoder d;
        struct slice ignored;

        decode_begin_inside(&d, outer, value, "ExecMetadata");
        decode_optional_string_or_null(&d, "threadId", &ignored);
        decode_optional_string_or_null(&d, "toolCallId", &ignored);
        decode_end_inside(outer, &d);
}

static void decode_shell(struct decoder *outer, const struct json *value, struct shell_snapshot_request *ret)
{
        struct decoder d;

        decode_begin_inside(&d, outer, value, "ShellInfo");
        decode_string(&d, "name", &ret->shell_name);
        decode_string(&d, "path", &ret->shell_path);
        decode_end_inside(outer, &d);
}

static struct slice raw_member(const struct decoder *d, const char *key)
{
        const struct json *v = json_get(d->doc, d->object, slice_from_str(key));
        return v ? json_raw(d->doc, v) : slice_from(NULL, 0);
}

static void decode_snapshot(struct decoder *outer, const struct json *value, struct process_start *in)
{
        static const char *const shells[] = { "bash", "zsh", "sh" };
        struct shell_snapshot_request *r = &in->snapshot;
        struct decoder d;
        const struct json *v;

        decode_begin_inside(&d, outer, value, "ShellSnapshotRequest");
        decode_string(&d, "scopeId", &r->scope);
        if ((v = decode_required(&d, "shell")))
                decode_shell(&d, v, r);
        decode_end_inside(outer, &d);
        if (outer->has_failed)
                return;
        if (r->scope.n == 0 || r->scope.n > LIMIT_SHELL_SCOPE_BYTES)
                decode_fail(outer, "shell snapshot scope must be non-empty and at most %d bytes",
                            LIMIT_SHELL_SCOPE_BYTES);
        else if (slice_find(r->shell_name, shells, ARRAY_LEN(shells)) == ARRAY_LEN(shells))
                decode_fail(outer, "shell snapshots are unsupported for shell `%.*s`", SLICE(r->shell_name));
        r->policy = raw_member(outer, "envPolicy");
        r->sandbox = raw_member(outer, "sandbox");
        in->has_snapshot = true;
}

/* Refuses members of other methods or of older protocols that ask for a sandbox, so that the command does not run without one. */
static void check_strays(struct decoder *d)
{
        static const char *const names[] = { "sandboxPolicy", "fileSystemSandboxPolicy", "permissions",
                                             "permissionProfile", "additionalPermissions" };
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (decode_peek(d, names[i]))
                        decode_fail(d, "`%s` is not a member of process/start: use `sandbox`", names[i]);
}

/* A profile that is disabled would run without a sandbox: its network is closed in one that has all files. */
static void close_network(struct profile *p)
{
        if (p->kind == PROFILE_DISABLED)
                *p = (struct profile){ .kind = PROFILE_MANAGED, .is_unrestricted = true };
        p->has_network = false;
}

/* A sandbox whose network is managed has no other one, whatever its profile says: it is planned without the network of the machine. */
const char *process_start_enforce_network(struct process_start *in)
{
        if (!in->has_sandbox || (!in->must_enforce_network && in->sandbox.profile.has_network))
                return NULL;
        if (!in->has_network)
                return in->must_enforce_network
                               ? "managed network enforcement is not available on this executor"
                               : NULL;
        if (in->network.wants_unix_sockets)
                return "dangerouslyAllowAllUnixSockets is not available on this executor";
        in->network.is_enforced = true;
        close_network(&in->sandbox.profile);
        return NULL;
}

static void decode_network(struct decoder *d, struct process_start *in)
{
        const struct json *v;

        decode_optional_bool(d, "enforceManagedNetwork", &in->must_enforce_network);
        if ((v = decode_peek(d, "managedNetwork")))
                process_managed_network_check(d, v);
        if ((v = decode_peek(d, "networkProxy"))) {
                in->has_network = true;
                process_network_decode(d, v, in->process_id, &in->network);
        }
        const char *why = d->has_failed ? NULL : process_start_enforce_network(in);
        if (why)
                decode_fail(d, "%s", why);
}

/* --- members that only this server knows -------------------------------------------------------------------------- */

/* Decodes `io`, which overrides `tty` and `pipeStdin`. */
static void decode_io(struct decoder *outer, const struct json *value, struct process_start *in)
{
        static const char *const types[] = { "pipe", "pty" };
        static const char *const stdins[] = { "closed", "open" };
        struct decoder d;
        size_t type = 0, stdin_kind = 0;
        const struct json *v;

        decode_begin_inside(&d, outer, value, "ProcessIo");
        decode_own_members(&d);
        decode_variant(&d, "type", types, ARRAY_LEN(types), &type);
        in->is_tty = type == 1;
        in->rows = in->cols = 0;
        if (in->is_tty) {
                if ((v = decode_peek(&d, "rows")))
                        decode_u16_value(&d, v, &in->rows);
                if ((v = decode_peek(&d, "cols")))
                        decode_u16_value(&d, v, &in->cols);
                if ((decode_peek(&d, "rows") && in->rows == 0) || (decode_peek(&d, "cols") && in->cols == 0))
                        decode_fail(&d, "rows and cols must be positive");
        } else {
                decode_variant(&d, "stdin", stdins, ARRAY_LEN(stdins), &stdin_kind);
        }
        in->has_stdin_pipe = stdin_kind == 1;
        decode_end_inside(outer, &d);
}

static void decode_kind(struct decoder *d, struct process_start *in)
{
        static const char *const kinds[] = { "direct", "prepared" };
        size_t kind = 0;

        if (decode_peek(d, "kind"))
                decode_variant(d, "kind", kinds, ARRAY_LEN(kinds), &kind);
        in->is_prepared = kind == 1;
        if (in->is_prepared && in->has_sandbox)
                decode_fail(d, "a prepared command has its sandbox already: `sandbox` must be absent");
}

static void decode_limits(struct decoder *outer, const struct json *value, struct process_start *in)
{
        struct process_limits *l = &in->limits;
        const struct {
                const char *key;
                uint64_t *target, max;
        } members[] = {
                { "wallMs", &l->wall_ms, INT64_MAX },         { "silenceMs", &l->silence_ms, INT64_MAX },
                { "cpuSeconds", &l->cpu_seconds, INT32_MAX }, { "memoryBytes", &l->memory_bytes, INT64_MAX },
                { "openFiles", &l->open_files, INT32_MAX },   { "processes", &l->processes, INT32_MAX },
                { "fileBytes", &l->file_bytes, INT64_MAX },
        };
        struct decoder d;

        decode_begin_inside(&d, outer, value, "ProcessLimits");
        decode_own_members(&d);
        for (size_t i = 0; i < ARRAY_LEN(members); i++) {
                bool has = false;
                decode_optional_u64_or_null(&d, members[i].key, &has, members[i].target);
                if (has && (*members[i].target == 0 || *members[i].target > members[i].max))
                        decode_fail(&d, "%s: out of range", members[i].key);
                in->has_limits = in->has_limits || has;
        }
        decode_end_inside(outer, &d);
}

int process_start_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                         struct err *err)
{
        struct process_start *in = ret;
        const struct json *sandbox, *v;
        struct decoder d;

        decode_begin(&d, a, doc, params, "WireExecParams", err);
        decode_process_id(&d, &in->process_id);
        decode_strings(&d, "argv", &in->argv, &in->argc);
        if ((v = decode_required(&d, "cwd")))
                decode_path_value(&d, v, "cwd URI", &in->cwd);
        decode_vars(&d, "env", &in->env, &in->env_count);
        v = decode_peek(&d, "io");
        if (!v)
                decode_bool(&d, "tty", &in->is_tty);
        decode_optional_bool(&d, "pipeStdin", &in->has_stdin_pipe);
        if (v)
                decode_io(&d, v, in);
        decode_optional_string_or_null(&d, "arg0", &in->arg0);
        if ((v = decode_peek(&d, "envPolicy"))) {
                in->has_env_policy = true;
                decode_env_policy(&d, v, &in->env_policy);
        }
        if (!d.has_failed && in->argc == 0)
                decode_fail(&d, "argv must not be empty");
        sandbox = decode_peek(&d, "sandbox");
        in->has_sandbox = sandbox != NULL;
        if (sandbox && !d.has_failed)
                d.has_failed =
                        sandbox_context_decode(a, doc, sandbox, SANDBOX_FOR_PROCESS, &in->sandbox, err) < 0;
        decode_network(&d, in);
        check_strays(&d);
        if ((v = decode_peek(&d, "metadata")))
                check_metadata(&d, v);
        if ((v = decode_peek(&d, "shellSnapshot")))
                decode_snapshot(&d, v, in);
        decode_own_members(&d);
        decode_kind(&d, in);
        if ((v = decode_peek(&d, "limits")))
                decode_limits(&d, v, in);
        if ((v = decode_peek(&d, "intercept"))) {
                in->has_intercept = true;
                process_intercept_decode(&d, v, &in->intercept);
        }
        return decode_end(&d);
}

/* --- the other methods -------------------------------------------------------------------------------------------- */

int process_read_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                        struct err *err)
{
        struct process_read *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "ReadParams", err);
        decode_process_id(&d, &in->process_id);
        decode_optional_u64_or_null(&d, "afterSeq", &in->has_after_seq, &in->after_seq);
        decode_optional_u64_or_null(&d, "maxBytes", &in->has_max_bytes, &in->max_bytes);
        decode_optional_u64_or_null(&d, "waitMs", &in->has_wait_ms, &in->wait_ms);
        in->wait_ms = MIN(in->wait_ms, (uint64_t)LIMIT_WAIT_MS);
        decode_own_members(&d);
        decode_optional_string_or_null(&d, "sessionId", &in->session_id);
        return decode_end(&d);
}

int process_write_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                         struct err *err)
{
        struct process_write *in = ret;
        struct decoder d;

        decode_begin(&d, a, doc, params, "WriteParams", err);
        decode_process_id(&d, &in->process_id);
        decode_base64(&d, "chunk", &in->bytes);
        decode_optional_string(&d, "writeId", &in->write_id);

        if (in->write_id.p && in->write_id.n == 0)
                decode_fail(&d, "writeId must not be empty");
        if (in->write_id.n > LIMIT_WRITE_ID_BYTES)
                decode_fail(&d, "writeId must be at most %d bytes", LIMIT_WRITE_ID_BYTES);
        if (slice_has_nul(in->write_id))
                decode_fail(&d, "writeId must not contain a nul byte");
        return decode_end(&d);
}

/* Returns the signal, which is given as a name or as a number from 1 to 64. */
static int decode_signal(struct decoder *d)
{
        static const char *const names[] = { "interrupt", "terminate", "kill", "hangup",
                                             "quit",      "user1",     "user2" };
        static const int numbers[] = { SIGINT, SIGTERM, SIGKILL, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
        const struct json *v = decode_required(d, "signal");
        size_t which = 0;

        if (v && v->type == JSON_NUMBER) {
                uint64_t signo = 0;
                decode_u64_value(d, v, &signo);
                if (!d->has_failed && (signo < 1 || signo > 64))
                        decode_fail(d, "signal: must be between 1 and 64");
                return (int)MIN(signo, 64);
        }
        decode_variant(d, "signal", names, ARRAY_LEN(names), &which);
        return numbers[which];
}

int process_signal_decode(struct arena *a, const struct json_doc *doc, const struct json *params, void *ret,
                          struct err *err)
{
        static const char *const scopes[] = {
                [SCOPE_GROUP] = "group", [SCOPE_PROCESS] = "process", [SCOPE_TREE] = "tree"
        };
        struct process_signal *in = ret;
        struct decoder d;
        size_t scope = SCOPE_GROUP;

        decode_begin(&d, a, doc, params, "SignalParams", err);
        decode_process_id(&d, &in->process_id);
        in->signo = decode_signal(&d);
        decode_own_members(&d);
        if (decode_peek(&d, "scope"))
                decode_variant(&d, "scope", scopes, ARRAY_LEN(scopes), &scope);
        in->scope = (enum signal_scope)scope;
        decode_optional_string_or_null(&d, "sessionId", &in->session_id);
        return decode_end(&d);
}

static void decode_mode(struct decoder *outer, const struct json *value, struct process_terminate *in)
{
        static const char *const types[] = { "force", "graceful" };
        struct decoder d;
        size_t type = 0;
        const struct json *v;

        decode_begin_inside(&d, outer, value, "TerminateMode");
        decode_own_members(&d);
        decode_variant(&d, "type", types, ARRAY_LEN(types), &type);
        in->has_mode = true;
        in->is_graceful = type == 1;
        if (in->is_graceful && (v = decode_required(&d, "timeoutMs")))
                decode_u64_value(&d, v, &in->timeout_ms);
        if (in->timeout_ms > LIMIT_GRACE_MS)
                decode_fail(&d, "timeoutMs: must be at most %d", LIMIT_GRACE_MS);
        decode_end_inside(outer, &d);
}

int process_terminate_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                             void *ret, struct err *err)
{
        struct process_terminate *in = ret;
        struct decoder d;
        const struct json *v;

        decode_begin(&d, a, doc, params, "TerminateParams", err);
        decode_process_id(&d, &in->process_id);
        decode_own_members(&d);
        if ((v = decode_peek(&d, "mode")))
                decode_mode(&d, v, in);
        decode_optional_string_or_null(&d, "sessionId", &in->session_id);
        return decode_end(&d);
}

/* task_start: process/start, from its params to its answer (PROTOCOL.md 6.1).
 *
 * The answer waits for the keeper: a program that cannot be executed is an error of the request, not an exit. When the
 * connection goes away meanwhile the start goes on, and the process belongs to the detached session. A start whose sandbox
 * is still being planned then (m_process.c) has not begun, and does not.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "policy/env.h"
#include "proto/process.h"
#include "sandbox/denied.h"
#include "sandbox/image.h"
#include "server/environment.h"
#include "server/server.h"
#include "server/task_internal.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* Where a bare name is looked for when the child has no PATH. */
#define DEFAULT_PATH "/usr/local/bin:/bin:/usr/bin"
#define ENV_STRING_MAX (128 * KIB) /* MAX_ARG_STRLEN: execve takes no longer string */
#define ARGV_SHOWN_BYTES 1024
#define TTY_ROWS 24
#define TTY_COLS 80

struct starter {
        struct parked parked;
        struct list link; /* task::starts */
        struct task *task;
};

static void starter_forget(struct parked *parked)
{
        struct starter *s = container_of(parked, struct starter, parked);
        list_remove(&s->link);
        free(s);
}

/* --- what to execute ---------------------------------------------------------------------------------------------- */

static int check_texts(const struct process_start *in, struct err *err)
{
        if (in->argv[0].n == 0)
                return err_set(err, RPC_INTERNAL, -EINVAL, "missing program for %s spawn",
                               in->tty ? "PTY" : "pipe");
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

/* A name with a slash is a path, relative to the cwd; a bare one is looked for in the child's PATH. */
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
                list[n++] = dir.n ? arena_printf(a, "%.*s/%.*s", SLICE(dir), SLICE(program))
                                  : arena_printf(a, "./%.*s", SLICE(program)); /* an empty entry is the cwd */
        }
        list[n] = NULL;
        return list;
}

/* --- the request -------------------------------------------------------------------------------------------------- */

/* The kernel's own limits, met here so that the list of candidates cannot become larger than the request. */
static int check_search(struct slice program, const char *path, struct err *err)
{
        if (memchr(program.p, '/', program.n))
                return 0;
        int e = program.n > NAME_MAX ? ENAMETOOLONG : strlen(path) >= ENV_STRING_MAX ? E2BIG : 0;
        if (e == 0)
                return 0;
        err->step = "exec";
        err->os_errno = e;
        return err_set(err, RPC_INTERNAL, -e, "%s (os error %d)", errno_text(e), e);
}

/* Those that the kernel enforces; wall time and silence are timers of ours. */
static struct spawn_limits kernel_limits(const struct process_limits *l)
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
                         in->env, in->env_count, in->tty ? environment_shell() : NULL);
}

static int begin(struct task *t, struct req *req, const struct process_start *in, struct err *err)
{
        struct arena *a = req->arena;
        const char **env = task_environment(a, in);
        const char *path = env_get(env, "PATH");
        if (!path)
                path = DEFAULT_PATH;
        int r = check_search(in->argv[0], path, err);
        if (r < 0)
                return r;
        struct process_request start = {
                .argv = make_argv(a, in),
                .env = env,
                .candidates = make_candidates(a, in->argv[0], path),
                .cwd = in->cwd.p,
                .is_tty = in->tty,
                .pipe_stdin = in->pipe_stdin,
                .rows = in->rows ? in->rows : TTY_ROWS,
                .cols = in->cols ? in->cols : TTY_COLS,
                .settle_ms = t->is_sandboxed ? DENIED_SETTLE_MS : 0,
                .limits = kernel_limits(&in->limits),
                .has_image = t->box.image_fd >= 0,
                .image_fd = t->box.image_fd,
                .whose = t->session->number,
                .helpers = t->box.image ? image_helpers(t->box.image) : 0,
        };
        t->process = process_start(&req->server->procs, &start, &task_process_events, t, err);
        if (!t->process) {
                int e = err->os_errno;
                return err_set(err, RPC_INTERNAL, err->code, "%s (os error %d)", errno_text(e), e);
        }
        if (in->tty && !memchr(in->argv[0].p, '/', in->argv[0].n)) {
                t->program = slice_dup(in->argv[0]);
                t->search_path = mem_strdup(path);
        }
        return 0;
}

/* What process/list shows: a long command line is cut, since it is kept as long as the process. */
static void describe(struct task *t, const struct process_start *in)
{
        _buf_ struct buf json = BUF_INIT(ARGV_SHOWN_BYTES * 16);
        struct jsonw w;
        size_t left = ARGV_SHOWN_BYTES;
        jsonw_begin(&w, &json);
        jsonw_array(&w);
        for (size_t i = 0; i < in->argc && left > 0; i++) {
                struct slice arg = slice_from(in->argv[i].p, MIN(in->argv[i].n, left));
                jsonw_string(&w, arg);
                left -= MIN(left, arg.n + 1);
        }
        jsonw_array_end(&w);
        if (jsonw_end(&w) == 0)
                t->argv_json = buf_take(&json);
        t->cwd = slice_dup(in->cwd);
        if (in->has_limits) {
                t->limits = mem_new(struct process_limits);
                *t->limits = in->limits;
        }
}

int task_start_check(struct req *req, const struct process_start *in, struct err *err)
{
        struct session *session = req->conn->session;
        const struct config *config = req->server->config;
        int r = check_texts(in, err);
        if (r < 0)
                return r;
        if (req->server->is_draining)
                return err_set(err, RPC_DRAINING, -ESHUTDOWN, "the server is shutting down");
        if (in->is_prepared ? !config->allow_prepared_exec : !config->allow_direct_exec)
                return err_set(err, RPC_INVALID_REQUEST, -EPERM, "%s exec is disabled",
                               in->is_prepared ? "prepared" : "direct");
        if (task_find(session, in->process_id))
                return err_set(err, RPC_INVALID_REQUEST, -EEXIST, "process %.*s already exists",
                               SLICE(in->process_id));
        if (session->task_count >= config->max_processes_per_session)
                return dispatch_limit(err, "max_processes_per_session", config->max_processes_per_session);

        struct spawn_limits limits = kernel_limits(&in->limits);
        struct spawn_enforced how;
        r = spawn_limits_check(&limits, &how, err);
        if (r < 0) {
                err->rpc = RPC_INVALID_PARAMS;
                return r;
        }
        return 0;
}

int task_start(struct req *req, const struct process_start *in, struct box_made *box, struct err *err)
{
        struct session *session = req->conn->session;
        int r = session ? task_start_check(req, in, err) : -ESTALE;
        if (!session)
                return err_set(err, RPC_INVALID_REQUEST, -ESTALE,
                               "session has been resumed by another connection");
        if (r < 0)
                return r;

        struct starter *s = mem_new(struct starter);
        r = parked_init(&s->parked, req, sizeof(*s), starter_forget, err);
        if (r < 0) {
                free(s);
                return r;
        }
        struct task *t = task_new(session, in->process_id);
        if (box) {
                t->box = *box;
                *box = BOX_NONE;
        }
        if (t->box.hold)
                guard_set_owner(req->server->boxes.guard, t->box.hold, t);
        t->is_sandboxed = in->has_sandbox;
        t->is_offline = in->has_sandbox && !in->sandbox.profile.has_network;
        describe(t, in);
        s->task = t;
        list_append(&t->starts, &s->link);
        r = begin(t, req, in, err);
        if (r < 0) {
                task_abandon(t);
                parked_fail(&s->parked, err);
                return 0; /* answered */
        }
        task_pause(t, !conn_wants_output(req->conn));
        return 0;
}

/* --- the answer --------------------------------------------------------------------------------------------------- */

static void forget_texts(struct task *t)
{
        free(TAKE(t->program));
        free(TAKE(t->search_path));
        t->box.image_fd = fd_close(t->box.image_fd);
}

/* How each limit that was asked for is enforced. */
static void write_enforced(struct jsonw *w, const struct process_limits *l)
{
        struct spawn_limits limits = kernel_limits(l);
        struct spawn_enforced how = { 0 };
        struct err ignored = ERR_INIT;
        must(spawn_limits_check(&limits, &how, &ignored) == 0); /* as before the start */
        const struct {
                const char *key, *how;
        } rows[] = {
                { "wallMs", l->wall_ms ? "timer" : NULL }, { "silenceMs", l->silence_ms ? "timer" : NULL },
                { "cpuSeconds", how.cpu_seconds },         { "memoryBytes", how.memory_bytes },
                { "openFiles", how.open_files },           { "processes", how.processes },
                { "fileBytes", how.file_bytes },
        };
        jsonw_key(w, "limits");
        jsonw_object(w);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (rows[i].how)
                        jsonw_member_str(w, rows[i].key, rows[i].how);
        jsonw_object_end(w);
}

void task_start_succeeded(struct task *t)
{
        forget_texts(t);
        struct starter *s = list_first(&t->starts, struct starter, link);
        if (!s)
                return; /* its connection went away; the process belongs to the session all the same */
        struct jsonw w;
        parked_reply_begin(&s->parked, jsonw_string_max(task_id(t)) + 96, &w);
        jsonw_object(&w);
        jsonw_member_string(&w, "processId", task_id(t));
        jsonw_member_str(&w, "sandboxType", t->is_sandboxed ? "linuxSeccomp" : "none");
        jsonw_member_i64(&w, "pid", t->process->pid);
        if (t->limits)
                write_enforced(&w, t->limits);
        jsonw_object_end(&w);
        parked_reply_end(&s->parked, &w);
}

void task_start_failed(struct task *t, const char *step, int os_errno)
{
        struct err err = ERR_INIT;
        if (!step)
                err_set(&err, RPC_INVALID_REQUEST, -ECANCELED, "process %.*s start was cancelled",
                        SLICE(task_id(t)));
        else if (t->program && os_errno == ENOENT && strcmp(step, "exec") == 0)
                err_set(&err, RPC_INTERNAL, -os_errno,
                        "Unable to spawn %s because:\nNo viable candidates found in PATH \"%s\"", t->program,
                        t->search_path);
        else
                err_set(&err, RPC_INTERNAL, -os_errno, "%s (os error %d)", errno_text(os_errno), os_errno);
        err.step = step;
        err.os_errno = os_errno;
        if (t->box.image_fd >= 0 && step && prepare_is_step(step)) {
                prepare_explain(t->box.image_fd, step, os_errno, t->process->failed_op, &err);
                err.rpc = RPC_INVALID_PARAMS;
        }
        if (t->cause == END_SANDBOX) {
                err_set(&err, RPC_INTERNAL, -ESTALE,
                        "the sandbox was broken from outside while it was built");
                err.step = "guard";
                err.os_errno = ESTALE;
                err.remedy = "something renamed or removed what the profile protects: start it again";
        }
        if (step && (strcmp(step, "spawner") == 0 || strcmp(step, "keeper") == 0))
                err.remedy =
                        "a helper process of the server was killed; what had begun is ended: start it again";
        forget_texts(t);
        struct starter *s = list_first(&t->starts, struct starter, link);
        if (s)
                parked_fail(&s->parked, &err);
}

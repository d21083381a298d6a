/* task_start: handles process/start, from its checks until its process begins (docs/PROTOCOL.md).
 *
 * The answer waits for the keeper, so that a program that cannot be executed is an error of the request, not an exit. When the
 * connection ends before the answer, the start goes on, and the process belongs to the detached session. But a start whose
 * sandbox is still being planned (start_plan.c) is given up.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/server.h"
#include "denial/denied.h"
#include "fsop/wary.h"
#include "gate/gate.h"
#include "proto/process.h"
#include "sandbox/image.h"
#include "session/first_program.h"
#include "session/task_internal.h"

#include <errno.h>

#define PROGRAM_SHOWN_BYTES 200 /* longest name of a program in the log */
#define ARGV_SHOWN_BYTES 1024
#define TTY_ROWS 24
#define TTY_COLS 80

static void starter_forget(struct parked *parked)
{
        struct starter *s = container_of(parked, struct starter, parked);
        struct task *t = s->task;
        bool is_planned_again = task_is_planned_again(t);
        t->starter = NULL;
        free(s);
        if (task_intercept_is_asking(t))
                return; /* the question stays open for the session */
        task_again_drop(t);
        if (is_planned_again && t->is_named) /* the connection has ended */
                task_never_begun(t);
}

static int begin(struct task *t, struct arena *a, const struct process_start *in, struct err *err)
{
        struct server *server = t->session->server;
        struct command_spec command;
        int r = task_command_make(a, in, &command, err);
        if (r < 0)
                return r;
        command.has_image = t->sandbox.image_fd >= 0;
        command.image_fd = t->sandbox.image_fd;
        command.bwrap = preparer_bwrap(&server->confine.preparer, t->sandbox.image);
        command.session = t->session->number;
        command.helpers = t->sandbox.image ? image_helpers(t->sandbox.image) : 0;
        const struct process_request start = {
                .command = &command,
                .has_stdin_pipe = in->has_stdin_pipe,
                .rows = in->rows ? in->rows : TTY_ROWS,
                .cols = in->cols ? in->cols : TTY_COLS,
                .settle_ms = t->is_sandboxed ? DENIED_SETTLE_MS : 0,
        };
        r = task_intercept_connect(t, a, &command);
        if (r < 0) {
                err->step = "intercept";
                err->os_errno = -r;
                return err_set(err, RPC_INTERNAL, r, "%s (os error %d)", errno_text(-r), -r);
        }
        r = task_network_connect(t, a, &command, err);
        if (r < 0)
                return r;
        wary_set(true); /* stays set until a file request finds that no command is left */
        r = process_begin(t->process, &start, err);
        task_intercept_handed_over(t);
        task_network_handed_over(t);
        if (r < 0) {
                task_intercept_disconnect(t);
                task_network_disconnect(t);
        }
        if (r < 0 && strcmp(err->step, "spawner") == 0) {
                err->client_code = RPC_INTERNAL; /* the text is complete */
                return r;
        }
        if (r < 0) {
                int e = err->os_errno;
                return err_set(err, RPC_INTERNAL, err->code, "%s (os error %d)", errno_text(e), e);
        }
        if (in->is_tty && !memchr(in->argv[0].p, '/', in->argv[0].n)) {
                free(t->program); /* set by the attempt before */
                free(t->search_path);
                t->program = slice_dup(in->argv[0]);
                t->search_path = mem_strdup(task_search_path(command.env));
        }
        return 0;
}

int task_start_begin(struct task *t, const struct process_start *in, struct err *err)
{
        struct server *s = t->session->server;
        _arena_ struct arena arena = ARENA_INIT;
        confine_begin(&s->confine, &t->sandbox, task_sandbox_broken);
        int r = begin(t, &arena, in, err);
        if (r < 0)
                return r;
        task_pause(t, t->session->client && !conn_wants_output(t->session->client->conn));
        task_signals_send_waiting(t);
        return 0;
}

/* Stores what process/list shows. A long command line is shortened, because it is kept as long as the process. */
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
        t->name = slice_dup(slice_from(in->argv[0].p, MIN(in->argv[0].n, (size_t)PROGRAM_SHOWN_BYTES)));
        if (in->has_limits) {
                t->limits = mem_new(struct process_limits);
                *t->limits = in->limits;
        }
}

/* Returns whether the session may have one more process. Running processes count, and closed ones whose tree is not gone. A process
 * that closed a moment ago does not count: its client knows the end, and its keeper is about to report that the tree is gone. */
static bool has_room(const struct session *session)
{
        uint64_t max = session->server->config->max_processes_per_session;
        uint64_t running = session->counts[TASK_RUNNING], ending = session->counts[TASK_ENDING];
        if (running + ending < max)
                return true;
        if (running >= max || running + ending >= max + LIMIT_ENDING_PROCESSES)
                return false;
        uint64_t now_ms = clock_mono_ms();
        const struct task *t;
        list_each (t, &session->all, session_link)
                if (t->stage == TASK_ENDING && now_ms - t->ending_since_ms >= LIMIT_ENDING_MS)
                        running++;
        return running < max;
}

int task_start_check(struct req *req, const struct process_start *in, struct err *err)
{
        struct session *session = req->client->session;
        const struct config *config = req->server->config;
        int r = task_command_check(in, err);
        if (r < 0)
                return r;
        if (req->server->is_draining)
                return err_set(err, RPC_DRAINING, -ESHUTDOWN, "the server is shutting down");
        if (in->is_prepared ? !config->allow_prepared_exec : !config->allow_direct_exec)
                return err_set(err, RPC_INVALID_REQUEST, -EPERM, "%s exec is disabled",
                               in->is_prepared ? "prepared" : "direct");
        if (in->has_network && !gate_is_there(req->server, err))
                return err->code;
        if (task_find(session, in->process_id))
                return err_set(err, RPC_INVALID_REQUEST, -EEXIST, "process %.*s already exists",
                               SLICE(in->process_id));
        if (!has_room(session))
                return req_limit(err, "max_processes_per_session", config->max_processes_per_session);

        struct spawn_limits limits = task_kernel_limits(&in->limits);
        struct spawn_enforced how;
        r = spawn_limits_check(&limits, &how, err);
        if (r < 0) {
                err->client_code = RPC_INVALID_PARAMS;
                return r;
        }
        return 0;
}

/* Warns once that sandboxed commands with an open network can connect to the port of the server. */
static void warn_if_reachable(struct server *s)
{
        const struct config *c = s->config;
        if (s->has_warned_open || c->conn.listen_url.kind != LISTEN_WS || c->conn.auth.mode != AUTH_NONE)
                return;
        s->has_warned_open = true;
        log_warn("a sandboxed command with an open network can connect to this server and start others "
                 "without a sandbox",
                 "listen=%s remedy=--ws-auth,--listen=unix:PATH", log_quote(slice_from_str(c->conn.listen)));
}

int task_start(struct req *req, struct process_start *in, struct guarded *sandbox,
               struct interception *interception, struct err *err)
{
        struct session *session = req->client->session;
        int r = session ? task_start_check(req, in, err) : -ESTALE;
        if (!session)
                return err_set(err, RPC_INVALID_REQUEST, -ESTALE,
                               "session has been resumed by another connection");
        if (r < 0)
                return r;

        bool is_boxed = sandbox != NULL, is_asked = interception && interception->action == INTERCEPT_ASK;
        uint64_t kept = is_boxed || is_asked ? task_again_bytes(req) : 0;
        struct starter *s = mem_new(struct starter);
        r = parked_init(&s->parked, req, sizeof(*s) + kept, starter_forget, err);
        if (r < 0) {
                free(s);
                return r;
        }
        struct task *t = task_new(session, in->process_id);
        t->process = process_new(&req->server->procs, &task_process_events, t);
        if (is_boxed) {
                t->sandbox = *sandbox;
                *sandbox = GUARDED_NONE;
        }
        if (interception)
                task_intercept_begin(t, interception);
        if (in->has_network)
                task_network_begin(t, &in->network);
        t->is_sandboxed = in->has_sandbox;
        if (t->sandbox.image && in->sandbox.profile.has_network)
                warn_if_reachable(req->server);
        t->is_offline = in->has_sandbox && !in->sandbox.profile.has_network;
        describe(t, in);
        s->task = t;
        t->starter = s;
        r = is_asked ? task_intercept_ask_first(t, kept, err) : task_start_begin(t, in, err);
        if (r < 0)
                task_start_refused(t, err);
        else if (is_boxed || is_asked)
                task_again_keep(t, req, in);
        return 0;
}

int task_capture(struct session *session, const struct process_start *in, struct guarded *sandbox,
                 const struct capture_events *events, void *arg, struct err *err)
{
        struct server *server = session->server;
        if (server->is_draining || !has_room(session))
                return -EAGAIN;
        struct task *t = task_new_hidden(session);
        t->process = process_new(&server->procs, &task_process_events, t);
        t->sandbox = *sandbox;
        *sandbox = GUARDED_NONE;
        t->is_sandboxed = in->has_sandbox;
        t->is_offline = in->has_sandbox && !in->sandbox.profile.has_network;
        describe(t, in);
        t->capture_events = events;
        t->capture = arg;
        events->begun(arg, t);
        int r = task_start_begin(t, in, err);
        if (r < 0)
                task_never_begun(t);
        return r;
}

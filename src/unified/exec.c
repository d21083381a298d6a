/* exec: the tool exec_command: from the question for permission over the start of the process to the end of the window. */
#include "unified/table_internal.h"

#include "base/mem.h"

#include <errno.h>

/* ---- the command ---- */

static struct slice base_name(const char *path)
{
        const char *slash = strrchr(path, '/');
        return slice_from_str(slash ? slash + 1 : path);
}

static bool is_known_shell(const char *path)
{
        static const char *const names[] = { "bash", "zsh", "sh", "dash", "ash", "ksh", "fish" };
        return slice_find(base_name(path), names, ARRAY_LEN(names)) < ARRAY_LEN(names);
}

/* Chooses the shell, and fails the call when there is none. The path is copied, because what a server has told about its machine is freed
 * with the connection. */
static const char *choose_shell(struct unified_call *c)
{
        const struct farhand_environment *info = c->host->info;
        const char *told = info && info->shell_path ? info->shell_path : "/bin/sh", *asked = c->exec.shell;
        const char *path = arena_dup(&c->strings, slice_from_str(told));
        if (!asked)
                return path;
        if (c->host->is_local && is_known_shell(asked))
                return asked;
        if (c->host->is_local) {
                unified_call_fail(c, "unsupported shell `%s`", asked);
                return NULL;
        }
        struct slice only = info && info->shell_name ? slice_from_str(info->shell_name) : base_name(path);
        if (slice_eq(base_name(asked), only))
                return path;
        unified_call_fail(c, "environment `%s` only supports `%.*s`", c->host->id, SLICE(only));
        return NULL;
}

/* Makes the arguments and the directory of the command. Returns false when the call has failed. */
static bool make_command(struct unified_call *c)
{
        const char **argv = arena_zalloc(&c->strings, 4 * sizeof(*argv));
        bool is_login = c->exec.has_login ? c->exec.login : !c->table->options.no_login;
        if (is_login && c->table->options.no_login) {
                unified_call_fail(c, "login shell is disabled by config; omit `login` or set it to false.");
                return false;
        }
        argv[0] = choose_shell(c);
        if (!argv[0])
                return false;
        argv[1] = is_login ? "-lc" : "-c";
        argv[2] = c->exec.cmd;
        c->argv = argv;
        c->cwd = host_path(&c->strings, c->host, c->exec.workdir);
        if (!c->cwd)
                unified_call_fail(
                        c,
                        "exec_command failed for `%s`: environment `%s` does not tell its working directory; "
                        "give an absolute `workdir`",
                        c->exec.cmd, c->host->id);
        return c->cwd != NULL;
}

/* ---- permission ---- */

static void ask_permission(struct unified_call *c)
{
        struct approval_action action = {
                .argv = c->argv,
                .tty = c->exec.tty,
                .wish = c->exec.wish,
                .justification = c->exec.justification,
                .additional = c->exec.additional_permissions,
        };
        unified_call_ask(c, action);
}

static const char *failure_prefix(struct unified_call *c)
{
        return arena_printf(&c->strings, "exec_command failed for `%s`: ", c->exec.cmd);
}

static void start(struct unified_call *c)
{
        struct farhand_error error;
        if (c->session) { /* the process of the first run, which was denied: no call can ask for it any more */
                exec_session_unlist(c->session);
                exec_session_unlock(c->session);
        }
        const char *sandbox = host_sandbox(&c->strings, c->host, approval_permissions(c->approval));
        const struct exec_start how = { .cmd = c->exec.cmd, .tty = c->exec.tty, .sandbox = sandbox };
        if (!exec_session_start(c, &how, &error)) {
                unified_call_fail(c, "%sFailed to create unified exec process: %s", failure_prefix(c),
                                  error.text);
                return;
        }
        unified_call_wait(c, CALL_STARTING, UINT64_MAX);
}

/* Starts the command, after a new connection if the old one was lost while a question was open. */
static bool start_when_ready(struct unified_call *c)
{
        enum host_state state = host_want(c->host);
        if (state == HOST_READY)
                start(c);
        else if (state == HOST_FAILED)
                unified_call_fail(c, "%sFailed to create unified exec process: %s", failure_prefix(c),
                                  c->host->error);
        return c->state != CALL_ASKING;
}

/* Does what the approval says. Returns false while a question is open. */
static bool follow_approval(struct unified_call *c)
{
        switch (approval_state(c->approval)) {
        case APPROVAL_ASKING:
        case APPROVAL_LOOKING: /* only the approval of a patch looks */
                return false;
        case APPROVAL_RUN:
                unified_call_end_question(c);
                return start_when_ready(c);
        case APPROVAL_REFUSED:
                unified_call_end_question(c);
                unified_call_fail(c, "%s%s", failure_prefix(c), approval_text(c->approval));
                return true;
        case APPROVAL_OVER:
                unified_call_end_question(c);
                unified_call_answer(c, failure_prefix(c));
                return true;
        }
        return false;
}

/* ---- the window ---- */

static bool on_starting(struct unified_call *c, uint64_t now_ms)
{
        const struct exec_session *s = c->session;
        if (s->has_failed && !s->has_started) {
                unified_call_fail(c, "%sFailed to create unified exec process: %s", failure_prefix(c),
                                  s->failure);
                return true;
        }
        if (!s->has_started)
                return false;
        /* A second run keeps the window of the first one, but waits for YIELD_LEAST_MS at least. */
        c->window_end_ms = c->window_end_ms ? MAX(c->window_end_ms, wait_end_ms(now_ms, YIELD_LEAST_MS))
                                            : wait_end_ms(now_ms, c->exec.yield_ms);
        /* A command that dies at once is always seen to end in its window: that takes at most 150 ms, and the shortest window is longer. */
        unified_call_wait(c, CALL_COLLECTING, c->window_end_ms);
        return true;
}

/* Tells the approval that the process has ended in the window. The approval decides whether this run gives the result of the call. */
static void report_run(struct unified_call *c)
{
        unified_call_ran(c, c->session->exit.sandbox_denied, c->session->denials, 0);
}

static bool on_collecting(struct unified_call *c, uint64_t now_ms)
{
        struct exec_session *s = c->session;
        if (exec_session_is_over(s, now_ms) && !exec_session_is_lost(s)) {
                if (exec_session_ask_denials(s))
                        unified_call_wait(c, CALL_REPORTING, now_ms + DENIALS_MS);
                else
                        report_run(c);
                return true;
        }
        if (exec_session_is_lost(s) || (now_ms >= c->window_end_ms && !s->has_exited)) {
                unified_call_answer(c, failure_prefix(c));
                return true;
        }
        unified_call_wait(c, CALL_COLLECTING,
                          s->has_exited ? s->exited_ms + AFTER_EXIT_MS : c->window_end_ms);
        return false;
}

static bool on_reporting(struct unified_call *c, uint64_t now_ms)
{
        if (c->session->is_queried && now_ms < c->wake_ms && !c->session->has_failed)
                return false;
        report_run(c);
        return true;
}

static bool on_connecting(struct unified_call *c)
{
        switch (host_want(c->host)) {
        case HOST_READY:
                if (make_command(c))
                        ask_permission(c);
                return true;
        case HOST_FAILED:
                unified_call_fail(c, "%sFailed to create unified exec process: %s", failure_prefix(c),
                                  c->host->error);
                return true;
        case HOST_IDLE:
        case HOST_CONNECTING:
        case HOST_ASKING:
                break;
        }
        return false;
}

/* Returns whether a command has any character that is no blank. */
static bool has_text(const char *cmd)
{
        return slice_trim(slice_from_str(cmd)).n > 0;
}

static bool on_new(struct unified_call *c)
{
        c->host = host_find(c->table, c->exec.environment_id);
        if (!c->host)
                unified_call_fail(c, "unknown environment id `%s`", c->exec.environment_id);
        else if (!has_text(c->exec.cmd))
                unified_call_fail(c, "%smissing command line for unified exec request", failure_prefix(c));
        else if (!patching_takes(c))
                unified_call_wait(c, CALL_CONNECTING, UINT64_MAX);
        return true;
}

int exec_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                struct err *err)
{
        return args_decode_exec(&c->strings, d, arguments, &c->exec, err);
}

bool exec_advance(struct unified_call *c, uint64_t now_ms)
{
        switch (c->state) {
        case CALL_NEW:
                return on_new(c);
        case CALL_CONNECTING:
                return on_connecting(c);
        case CALL_ASKING:
                return follow_approval(c);
        case CALL_STARTING:
                return on_starting(c, now_ms);
        case CALL_COLLECTING:
                return on_collecting(c, now_ms);
        case CALL_REPORTING:
                return on_reporting(c, now_ms);
        case CALL_QUEUED:
        case CALL_PAUSING:
        case CALL_PATCHING:
        case CALL_LOOKING:
        case CALL_FILING:
        case CALL_DONE:
                break;
        }
        return false;
}

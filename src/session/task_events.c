/* task_events: handles the events of a task's process, and sends notifications to its client. */
#include "base/base64.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/environment.h"
#include "core/server.h"
#include "proto/process.h"
#include "session/task_internal.h"

#include <signal.h>

/* Returns the client that gets the notifications, or NULL. */
static struct client *listener_of(struct task *t)
{
        struct client *c = t->session->client;
        /* A task whose start was cancelled sends nothing: another process may have its id now. */
        return c && t->is_named && conn_is_usable(c->conn) ? c : NULL;
}

static void notify_begin(struct task *t, struct client *c, const char *method, size_t extra, struct jsonw *w)
{
        conn_notify_begin(c->conn, method, jsonw_string_max(task_id(t)) + 128 + extra, w);
        jsonw_member_string(w, "processId", task_id(t));
}

static void on_output(struct process *p, enum stream stream, uint64_t seq, struct slice bytes)
{
        struct task *t = p->owner;
        task_retention_grew(t);
        if (t->capture)
                t->capture_events->output(t->capture);
        if (t->silence && task_intercept_holds_limits(t))
                t->silence_left_ms = t->limits->silence_ms;
        else if (t->silence)
                timer_start(t->silence, t->limits->silence_ms);
        struct client *c = listener_of(t);
        if (c) {
                struct jsonw w;
                notify_begin(t, c, "process/output", base64_encoded_size(bytes.n), &w);
                jsonw_member_u64(&w, "seq", seq);
                jsonw_member_str(&w, "stream", stream_name(stream));
                jsonw_key(&w, "chunk");
                jsonw_base64(&w, bytes);
                conn_notify_end(c->conn, &w);
        }
        task_readers_wake(t);
}

const char *task_failure(const struct task *t)
{
        if (t->process->has_failed)
                return "the server lost control of the process";
        return t->process->has_lost_output ? "the server could not read all output of the process" : NULL;
}

/* Tells a client that asked for it that the server does not know how the process ended, or lost output. The notification has no
 * sequence number. */
static void notify_failed(struct task *t)
{
        struct client *c = listener_of(t);
        if (!c || !c->wants_failed)
                return;
        struct jsonw w;
        notify_begin(t, c, "process/failed", 0, &w);
        jsonw_member_str(&w, "message", task_failure(t));
        conn_notify_end(c->conn, &w);
}

static const char *name_of(const struct task *t)
{
        return log_quote(slice_from_str(t->name ? t->name : ""));
}

static const char *user_name(void)
{
        return log_quote(slice_from_str(environment_user()));
}

static void log_exit(const struct task *t)
{
        const struct process *p = t->process;
        char signal[TASK_EXIT_SIGNAL_BYTES];
        log_info("process exited",
                 "session=%.13s proc=%s program=%s user=%s code=%d signal=%s reason=%s duration_ms=%llu",
                 t->session->id, log_quote(task_id(t)), name_of(t), user_name(), p->exit_code,
                 task_exit_signal(p, signal) ? signal : "none", task_exit_reason(t),
                 (unsigned long long)(clock_mono_ms() - t->started_mono_ms));
}

static void log_broken(struct task *t)
{
        /* Before the command has started a break is no warning, because the sandbox is usually built again. */
        enum log_level level = t->sandbox.has_started ? LOG_WARN : LOG_INFO;
        if (!t->is_break_logged)
                log_at(level, 0, "sandbox broken from outside", "session=%.13s proc=%s", t->session->id,
                       log_quote(task_id(t)));
        t->is_break_logged = true;
}

static bool was_broken(struct task *t)
{
        bool is_broken = guarded_was_broken(&t->sandbox);
        if (is_broken)
                log_broken(t);
        return is_broken;
}

void task_sandbox_broken(struct guarded *g)
{
        struct task *t = container_of(g, struct task, sandbox);
        if (process_has_exited(t->process)) {
                process_kill_rest(t->process);
                return;
        }
        log_broken(t);
        task_end_now(t, END_SANDBOX);
}

static void on_exited(struct process *p, uint64_t seq)
{
        struct task *t = p->owner;
        task_intercept_exited(t); /* what was asked or reported before comes before */
        task_network_exited(t);
        t->wall = timer_free(t->wall);
        t->silence = timer_free(t->silence);
        if (t->cause == END_BY_ITSELF && p->exit_signal == SIGKILL && was_broken(t))
                t->cause = END_SANDBOX;
        if (t->is_sandboxed)
                t->is_denied = t->cause == END_SANDBOX ||
                               task_output_denied(&p->output, t->is_offline, p->exit_code);
        if (t->is_denied)
                t->denials = task_denials(&p->output, t->is_offline, p->exit_signal);
        log_exit(t);
        struct client *c = listener_of(t);
        if (c) {
                struct jsonw w;
                notify_begin(t, c, "process/exited", TASK_EXIT_BYTES, &w);
                jsonw_member_u64(&w, "seq", seq);
                jsonw_member_i64(&w, "exitCode", p->exit_code);
                jsonw_member_bool(&w, "sandboxDenied", t->is_denied);
                task_exit_write(&w, t);
                conn_notify_end(c->conn, &w);
        }
        if (task_failure(t))
                notify_failed(t);
        task_readers_wake(t);
        task_waits_wake(t);
}

static void on_closed(struct process *p, uint64_t seq)
{
        struct task *t = p->owner;
        task_intercept_closed(t);
        task_network_closed(t);
        struct client *c = listener_of(t);
        if (c) {
                struct jsonw w;
                notify_begin(t, c, "process/closed", 0, &w);
                jsonw_member_u64(&w, "seq", seq);
                conn_notify_end(c->conn, &w);
        }
        task_readers_wake(t);
        task_waits_wake(t);
        task_reclass(t);
        if (t->capture)
                t->capture_events->ended(t->capture);
        task_finish(t);
}

static void on_gone(struct process *p)
{
        struct task *t = p->owner;
        struct session *session = t->session;
        task_intercept_end(t);
        task_network_closed(t);
        task_signals_answer_all(t);
        task_stop_timers(t);
        confine_unmake(&session->server->confine, &t->sandbox);
        if (t->stage == TASK_ENDING)
                task_set_stage(t, TASK_FINISHED);
        if (!t->is_named)
                task_forget(t);
        session->task_gone(session);
        server_process_gone(session->server);
}

static void notify_started(struct task *t)
{
        struct client *c = listener_of(t);
        if (!c || !c->wants_started)
                return;
        struct jsonw w;
        notify_begin(t, c, "process/started", 0, &w);
        jsonw_member_i64(&w, "pid", t->process->pid);
        conn_notify_end(c->conn, &w);
}

static void on_wall_limit(void *arg)
{
        task_end_gently(arg, END_WALL_LIMIT);
}

static void on_silence_limit(void *arg)
{
        struct task *t = arg;
        if (t->process->is_paused)
                timer_start(
                        t->silence,
                        t->limits->silence_ms); /* the process is silent because its client reads slowly */
        else
                task_end_gently(t, END_SILENCE_LIMIT);
}

static void start_limits(struct task *t)
{
        struct loop *loop = &t->session->server->loop;
        if (t->limits && t->limits->wall_ms) {
                t->wall = timer_new(loop, on_wall_limit, t);
                timer_start(t->wall, t->limits->wall_ms);
        }
        if (t->limits && t->limits->silence_ms) {
                t->silence = timer_new(loop, on_silence_limit, t);
                timer_start(t->silence, t->limits->silence_ms);
        }
}

void task_limits_hold(struct task *t)
{
        if (t->wall) {
                t->wall_left_ms = timer_left_ms(t->wall);
                timer_stop(t->wall);
        }
        if (t->silence) {
                t->silence_left_ms = timer_left_ms(t->silence);
                timer_stop(t->silence);
        }
}

void task_limits_go_on(struct task *t)
{
        if (t->wall)
                timer_start(t->wall, t->wall_left_ms);
        if (t->silence)
                timer_start(t->silence, t->silence_left_ms);
}

static void on_started(struct process *p)
{
        struct task *t = p->owner;
        t->started_mono_ms = clock_mono_ms();
        log_info("process started", "session=%.13s proc=%s program=%s user=%s pid=%d", t->session->id,
                 log_quote(task_id(t)), name_of(t), user_name(), (int)p->pid);
        int r = task_network_started(t);
        if (r < 0) {
                log_warn_r(r, "keeper has not sent the sockets of a managed network", "session=%.13s proc=%s",
                           t->session->id, log_quote(task_id(t)));
                task_end_now(t, END_SANDBOX); /* it reaches nothing */
        }
        task_start_succeeded(t);
        confine_started(&t->session->server->confine, &t->sandbox);
        notify_started(t);
        start_limits(t);
        task_intercept_started(t);
        task_writes_go_on(t);
        task_readers_wake(t);
        task_waits_wake(t);
}

static void on_failed(struct process *p, const char *step, int os_errno)
{
        struct task *t = p->owner;
        task_intercept_disconnect(t);
        task_network_disconnect(t);
        if (t->cause == END_BY_ITSELF && was_broken(t))
                t->cause = END_SANDBOX;
        if (task_start_again(t, step, os_errno))
                return;
        if (t->capture)
                t->capture_events->not_started(t->capture, task_is_overtaken(t, step, os_errno));
        log_at(LOG_INFO, os_errno, "process not started", "session=%.13s proc=%s program=%s user=%s step=%s",
               t->session->id, log_quote(task_id(t)), name_of(t), user_name(), step);
        /* The id is free before the answer is sent: the client may try again at once. */
        task_unname(t);
        task_set_stage(t, TASK_ENDING);
        task_start_failed(t, step, os_errno);
        task_waiting_fail(t);
        task_writes_fail(t);
        task_signals_answer_all(t);
}

static void on_stdin_moved(struct process *p)
{
        task_writes_go_on(p->owner);
}

static void on_signalled(struct process *p, int os_errno)
{
        task_signal_answered(p->owner, os_errno);
}

const struct process_events task_process_events = {
        .started = on_started,
        .failed = on_failed,
        .output = on_output,
        .exited = on_exited,
        .closed = on_closed,
        .stdin_moved = on_stdin_moved,
        .signalled = on_signalled,
        .gone = on_gone,
};

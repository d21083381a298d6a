#include "server/task.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/process.h"
#include "server/exit_record.h"
#include "server/retention.h"
#include "server/task_internal.h"

#include <errno.h>
#include <signal.h>

struct task *task_find(const struct session *session, struct slice id)
{
        return map_find(&session->tasks, id);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* Nothing more can happen to it that a limit is about. */
static void stop_timers(struct task *t)
{
        t->wall = timer_free(t->wall);
        t->silence = timer_free(t->silence);
        t->grace = timer_free(t->grace);
}

static void unname(struct task *t)
{
        if (!t->is_named)
                return;
        t->is_named = false;
        map_remove(&t->session->tasks, task_id(t));
}

static void free_task(struct deferred *d)
{
        struct task *t = container_of(d, struct task, reap);
        must(list_is_empty(&t->readers) && list_is_empty(&t->waits));
        must(list_is_empty(&t->writes) && list_is_empty(&t->starts));
        t->process = process_free(t->process);
        write_ids_free(t->write_ids);
        free(t->limits);
        free(t->denials);
        free(t->argv_json);
        free(t->cwd);
        free(t->program);
        free(t->search_path);
        free(t->id);
        free(t);
}

void task_forget(struct task *t)
{
        must(!t->process || t->process->is_gone);
        if (!list_is_linked(&t->session_link))
                return;
        unname(t);
        retention_leave(t);
        task_readers_fail(t);
        task_waits_fail(t);
        task_writes_fail(t);
        task_signals_answer_all(t);
        if (t->process)
                process_silence(t->process);
        stop_timers(t);
        t->retention = timer_free(t->retention);
        list_remove(&t->session_link);
        list_remove(&t->server_link);
        t->session->task_count--;
        boxes_unmake(&t->session->server->boxes, &t->box);
        loop_defer(&t->session->server->loop, &t->reap);
}

/* The id is free again. Output goes; what the process left running stays, and belongs to the session. */
static void on_retention_over(void *arg)
{
        struct task *t = arg;
        unname(t);
        task_readers_fail(t);
        task_waits_fail(t);
        retention_leave(t);
        output_release(&t->process->output);
        t->retention = timer_free(t->retention);
        if (t->process->is_gone)
                task_forget(t);
}

struct task *task_new(struct session *session, struct slice id)
{
        struct task *t = mem_new(struct task);
        t->session = session;
        t->id = slice_dup(id);
        t->id_len = id.n;
        t->box = BOX_NONE;
        list_init(&t->starts);
        list_init(&t->readers);
        list_init(&t->waits);
        list_init(&t->writes);
        list_init(&t->signals);
        list_init(&t->retained_link);
        deferred_init(&t->reap, free_task);
        list_append(&session->all, &t->session_link);
        session->task_count++;
        list_append(&session->server->tasks, &t->server_link);
        t->is_named = true;
        map_put(&session->tasks, task_id(t), t);
        return t;
}

void task_abandon(struct task *t)
{
        must(!t->process);
        task_forget(t);
}

/* --- what clients are told ---------------------------------------------------------------------------------------- */

/* The connection to tell, or NULL while nobody listens. */
static struct conn *listener_of(struct task *t)
{
        struct conn *c = t->session->conn;
        /* A cancelled start has no name any more: it may be another process's by now. */
        return c && t->is_named && conn_is_usable(c) ? c : NULL;
}

static void notify_begin(struct task *t, struct conn *c, const char *method, size_t extra, uint64_t seq,
                         struct jsonw *w)
{
        conn_notify_begin(c, method, jsonw_string_max(task_id(t)) + 128 + extra, w);
        jsonw_object(w);
        jsonw_member_string(w, "processId", task_id(t));
        jsonw_member_u64(w, "seq", seq);
}

static void notify_end(struct conn *c, struct jsonw *w)
{
        jsonw_object_end(w);
        conn_notify_end(c, w);
}

static void on_output(struct process *p, enum stream stream, uint64_t seq, struct slice bytes)
{
        struct task *t = p->owner;
        retention_grew(t);
        if (t->silence)
                timer_start(t->silence, t->limits->silence_ms);
        struct conn *c = listener_of(t);
        if (c) {
                struct jsonw w;
                notify_begin(t, c, "process/output", base64_encoded_size(bytes.n), seq, &w);
                jsonw_member_str(&w, "stream", stream_name(stream));
                jsonw_key(&w, "chunk");
                jsonw_base64(&w, bytes);
                notify_end(c, &w);
        }
        task_readers_wake(t);
}

/* For clients that asked: how it ended nobody knows. Has no number, so it cannot disturb the row. */
static void notify_failed(struct task *t)
{
        struct conn *c = listener_of(t);
        if (!c || !c->wants_failed)
                return;
        struct jsonw w;
        conn_notify_begin(c, "process/failed", jsonw_string_max(task_id(t)) + 128, &w);
        jsonw_object(&w);
        jsonw_member_string(&w, "processId", task_id(t));
        jsonw_member_str(&w, "message", TASK_FAILURE);
        notify_end(c, &w);
}

static void on_exited(struct process *p, uint64_t seq)
{
        struct task *t = p->owner;
        t->wall = timer_free(t->wall);
        t->silence = timer_free(t->silence);
        if (t->is_sandboxed)
                t->is_denied = t->cause == END_SANDBOX ||
                               task_output_denied(&p->output, t->is_offline, p->exit_code);
        if (t->is_denied)
                t->denials = task_denials(&p->output, t->is_offline, p->exit_signal);
        log_info("process exited", "session=%.13s proc=%s code=%d", t->session->id, log_quote(task_id(t)),
                 p->exit_code);
        struct conn *c = listener_of(t);
        if (c) {
                struct jsonw w;
                notify_begin(t, c, "process/exited", EXIT_RECORD_BYTES, seq, &w);
                jsonw_member_i64(&w, "exitCode", p->exit_code);
                jsonw_member_bool(&w, "sandboxDenied", t->is_denied);
                exit_record_write(&w, t);
                notify_end(c, &w);
        }
        if (p->has_failed)
                notify_failed(t);
        task_readers_wake(t);
        task_waits_wake(t);
}

static void on_closed(struct process *p, uint64_t seq)
{
        struct task *t = p->owner;
        struct server *s = t->session->server;
        struct conn *c = listener_of(t);
        if (c) {
                struct jsonw w;
                notify_begin(t, c, "process/closed", 0, seq, &w);
                notify_end(c, &w);
        }
        task_readers_wake(t);
        task_waits_wake(t);
        task_reclass(t);
        t->retention = timer_new(&s->loop, on_retention_over, t);
        timer_start(t->retention, s->config->exited_process_retention_ms);
}

static void on_gone(struct process *p)
{
        struct task *t = p->owner;
        struct session *session = t->session;
        task_signals_answer_all(t);
        stop_timers(t);
        boxes_unmake(&session->server->boxes, &t->box);
        if (!t->is_named)
                task_forget(t);
        session_task_gone(session);
        server_process_gone(session->server);
}

static void notify_started(struct task *t)
{
        struct conn *c = listener_of(t);
        if (!c || !c->wants_started)
                return;
        struct jsonw w;
        conn_notify_begin(c, "process/started", jsonw_string_max(task_id(t)) + 64, &w);
        jsonw_object(&w);
        jsonw_member_string(&w, "processId", task_id(t));
        jsonw_member_i64(&w, "pid", t->process->pid);
        notify_end(c, &w);
}

static void on_wall_limit(void *arg)
{
        task_end_gently(arg, END_WALL_LIMIT);
}

static void on_silence_limit(void *arg)
{
        struct task *t = arg;
        if (t->process->is_paused)
                timer_start(t->silence, t->limits->silence_ms); /* it is its reader that is slow */
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

static void on_started(struct process *p)
{
        struct task *t = p->owner;
        log_info("process started", "session=%.13s proc=%s pid=%d", t->session->id, log_quote(task_id(t)),
                 (int)p->pid);
        task_start_succeeded(t);
        boxes_on_started(t);
        notify_started(t);
        start_limits(t);
        task_writes_go_on(t);
        task_readers_wake(t);
        task_waits_wake(t);
}

static void on_failed(struct process *p, const char *step, int os_errno)
{
        struct task *t = p->owner;
        /* The id is free before the answer goes out: a client may try again at once. */
        unname(t);
        task_start_failed(t, step, os_errno);
        task_readers_fail(t);
        task_waits_fail(t);
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

/* --- ending ------------------------------------------------------------------------------------------------------- */

static void set_cause(struct task *t, enum end_cause cause)
{
        if (t->cause == END_BY_ITSELF && !t->process->is_ending)
                t->cause = cause; /* the first reason is the reason; one that comes after the end is none */
}

static void on_grace_over(void *arg)
{
        struct task *t = arg;
        t->grace = timer_free(t->grace);
        task_end_now(t, t->cause);
}

/* Until everything is killed. A later reason may only shorten it. What the root leaves behind has the same time. */
static void give_grace(struct task *t, uint64_t ms)
{
        uint64_t until_ms = clock_mono_ms() + ms;
        if (t->grace && t->grace_until_ms <= until_ms)
                return;
        if (!t->grace)
                t->grace = timer_new(&t->session->server->loop, on_grace_over, t);
        t->grace_until_ms = until_ms;
        timer_start(t->grace, ms);
}

bool task_terminate(struct task *t, uint64_t grace_ms)
{
        if (process_has_exited(t->process))
                return false;
        set_cause(t, END_TERMINATED);
        if (t->process->state == PROC_STARTING && !t->is_cancelled) {
                t->is_cancelled = true;
                unname(t);
                task_start_failed(t, NULL, 0);
                task_readers_fail(t);
                task_waits_fail(t);
        }
        if (grace_ms == 0 || t->is_cancelled) {
                process_kill(t->process);
        } else {
                task_signal_silently(t, SIGTERM, SPAWN_GROUP);
                task_signal_silently(t, SIGCONT, SPAWN_GROUP);
                give_grace(t, grace_ms);
        }
        return true;
}

void task_end_gently(struct task *t, enum end_cause cause)
{
        uint64_t grace_ms = t->session->server->config->shutdown_grace_period_ms;
        if (t->process->is_gone)
                return;
        if (grace_ms == 0 || t->process->state == PROC_STARTING) {
                task_end_now(t, cause);
                return;
        }
        set_cause(t, cause);
        task_signal_silently(t, SIGTERM, SPAWN_TREE);
        task_signal_silently(t, SIGCONT,
                             SPAWN_TREE); /* a stopped process hears SIGTERM only when it goes on */
        give_grace(t, grace_ms);
}

void task_end_now(struct task *t, enum end_cause cause)
{
        if (t->process->is_gone)
                return;
        set_cause(t, cause);
        process_kill_rest(t->process);
}

void task_pause(struct task *t, bool paused)
{
        process_pause(t->process, paused);
}

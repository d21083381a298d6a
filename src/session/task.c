/* task: makes, ends and frees tasks. */
#include "session/task.h"

#include "base/clock.h"
#include "base/mem.h"
#include "session/task_internal.h"

#include <errno.h>
#include <signal.h>

struct task *task_find(const struct session *session, struct slice id)
{
        return map_find(&session->tasks, id);
}

int task_unknown(struct slice id, struct err *err)
{
        return err_set(err, RPC_INVALID_REQUEST, -ESRCH, "unknown process id %.*s", SLICE(id));
}

/* --- making and freeing tasks ------------------------------------------------------------------------------------- */

void task_stop_timers(struct task *t)
{
        t->wall = timer_free(t->wall);
        t->silence = timer_free(t->silence);
        t->grace = timer_free(t->grace);
}

void task_set_stage(struct task *t, enum task_stage stage)
{
        t->session->counts[t->stage]--;
        t->stage = stage;
        t->session->counts[stage]++;
        t->ending_since_ms = clock_mono_ms();
}

/* Removes the task from the finished tasks that clients can still read. */
static void leave_finished(struct task *t)
{
        t->retention = timer_free(t->retention);
        if (!list_is_linked(&t->finished_link))
                return;
        list_remove(&t->finished_link);
        t->session->finished_count--;
}

void task_unname(struct task *t)
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
        must(list_is_empty(&t->writes) && !t->starter);
        t->process = process_free(t->process);
        task_intercept_free(t);
        task_network_free(t);
        write_ids_free(t->write_ids);
        free(t->limits);
        free(t->denials);
        free(t->argv_json);
        free(t->cwd);
        free(t->name);
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
        if (t->capture)
                t->capture_events->ended(t->capture);
        task_unname(t);
        list_remove(&t->retained_link);
        task_waiting_fail(t);
        task_writes_fail(t);
        task_signals_answer_all(t);
        if (t->process)
                process_silence(t->process);
        task_intercept_end(t);
        task_network_disconnect(t);
        task_again_drop(t);
        task_stop_timers(t);
        leave_finished(t);
        list_remove(&t->session_link);
        list_remove(&t->server_link);
        t->session->counts[t->stage]--;
        confine_unmake(&t->session->server->confine, &t->sandbox);
        loop_defer(&t->session->server->loop, &t->reap);
}

/* Frees the id and the output of a finished task. Processes that the command left running go on until the session ends. */
static void on_retention_over(void *arg)
{
        struct task *t = arg;
        task_unname(t);
        task_waiting_fail(t);
        list_remove(&t->retained_link);
        output_release(&t->process->output);
        leave_finished(t);
        if (t->process->is_gone)
                task_forget(t);
}

/* Forgets the tasks that closed first when there are too many. A task stays while a process/read of its owner waits for room in
 * the queue of the connection; the number of such requests is limited elsewhere (parked.h). */
static void forget_finished(struct session *session, const struct task *newest)
{
        uint64_t max = session->server->config->max_finished_processes_per_session;
        struct task *t;
        list_each (t, &session->finished, finished_link) {
                if (session->finished_count <= max || t == newest)
                        return;
                if (!task_has_own_readers(t))
                        on_retention_over(t);
        }
}

void task_finish(struct task *t)
{
        struct server *s = t->session->server;
        task_set_stage(t, t->process->is_gone ? TASK_FINISHED : TASK_ENDING);
        if (t->is_hidden) {
                on_retention_over(t); /* no client reads a capture, so it need not be kept */
                return;
        }
        t->retention = timer_new(&s->loop, on_retention_over, t);
        timer_start(t->retention, s->config->exited_process_retention_ms);
        list_append(&t->session->finished, &t->finished_link);
        t->session->finished_count++;
        forget_finished(t->session, t);
}

static void give_up(struct deferred *d)
{
        struct task *t = container_of(d, struct task, give_up);
        struct session *session = t->session;
        task_forget(t);
        session->task_gone(session);
}

void task_never_begun(struct task *t)
{
        task_unname(t);
        task_intercept_end(t);
        task_network_disconnect(t);
        task_again_drop(t);
        t->process->is_gone = true;
        task_set_stage(t, TASK_FINISHED);
        loop_defer(&t->session->server->loop, &t->give_up);
}

static struct task *new_unnamed(struct session *session, struct slice id)
{
        struct task *t = mem_new(struct task);
        t->session = session;
        t->id = slice_dup(id);
        t->id_len = id.n;
        t->sandbox = GUARDED_NONE;
        list_init(&t->readers);
        list_init(&t->waits);
        list_init(&t->writes);
        list_init(&t->signals);
        list_init(&t->retained_link);
        list_init(&t->finished_link);
        deferred_init(&t->give_up, give_up);
        deferred_init(&t->reap, free_task);
        list_append(&session->all, &t->session_link);
        session->counts[TASK_RUNNING]++;
        list_append(&session->server->tasks, &t->server_link);
        return t;
}

struct task *task_new(struct session *session, struct slice id)
{
        struct task *t = new_unnamed(session, id);
        t->is_named = true;
        map_put(&session->tasks, task_id(t), t);
        return t;
}

struct task *task_new_hidden(struct session *session)
{
        struct task *t = new_unnamed(session, S("shell snapshot")); /* this id is for the log */
        t->is_hidden = true;
        return t;
}

void task_capture_over(struct task *t)
{
        t->capture = NULL;
        if (t->stage == TASK_RUNNING)
                task_set_stage(t, TASK_ENDING);
}

/* --- ending a process --------------------------------------------------------------------------------------------- */

static void set_cause(struct task *t, enum end_cause cause)
{
        if (t->cause == END_BY_ITSELF && !t->process->is_ending)
                t->cause = cause; /* only the first cause counts, and only if it comes before the end */
}

static void on_grace_over(void *arg)
{
        struct task *t = arg;
        t->grace = timer_free(t->grace);
        task_end_now(t, t->cause);
}

/* Kills the whole tree after this time. Another call can only shorten the time. Descendants that outlive the command have the
 * same time. */
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
                bool has_begun = process_has_begun(t->process);
                task_intercept_withdraw_first(t);
                t->is_cancelled = true;
                task_unname(t);
                task_start_failed(t, NULL, 0);
                task_waiting_fail(t);
                if (!has_begun) {
                        task_never_begun(t);
                        return true;
                }
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
        task_signal_silently(t, SIGCONT, SPAWN_TREE); /* a stopped process handles no SIGTERM */
        give_grace(t, grace_ms);
}

void task_end_now(struct task *t, enum end_cause cause)
{
        if (t->process->is_gone)
                return;
        set_cause(t, cause);
        if (task_intercept_is_asking(t)) {
                task_start_given_up(t);
                return;
        }
        process_kill_rest(t->process);
}

void task_pause(struct task *t, bool paused)
{
        process_pause(t->process, paused && !t->capture); /* the output of a capture goes to no client */
        task_intercept_pause(t, paused);
        task_network_pause(t, paused);
}

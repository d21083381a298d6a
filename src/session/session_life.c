/* session_life: begins, attaches, detaches and ends sessions. */
#include "session/session_life.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/job.h"
#include "session/shell_snapshot.h"
#include "session/task_internal.h"

#include <errno.h>

/* --- making, attaching and detaching sessions --------------------------------------------------------------------- */

static bool has_processes(const struct session *session)
{
        const struct task *t;
        list_each (t, &session->all, session_link)
                if (t->process && !t->process->is_gone)
                        return true;
        return false;
}

/* Frees the session and its tasks at the end of the turn. The process trees of the tasks must be gone. */
static void forget_session(struct session *session)
{
        struct task *t;
        list_each (t, &session->all, session_link)
                task_forget(t);
        session->timer = timer_free(session->timer);
        loop_defer(&session->server->loop, &session->reap);
}

static void on_task_gone(struct session *session)
{
        if (!session->is_ended || has_processes(session) || !session->timer)
                return;
        forget_session(session);
}

static void kill_tasks(struct session *session)
{
        struct task *t;
        list_each (t, &session->all, session_link)
                task_end_now(t, END_SESSION);
        on_task_gone(session);
}

static void on_timer(void *arg)
{
        struct session *session = arg;
        if (session->is_ended)
                kill_tasks(session);
        else
                session_end(session);
}

static void free_session(struct deferred *d)
{
        struct session *session = container_of(d, struct session, reap);
        must(list_is_empty(&session->all));
        shell_snapshots_release(session);
        network_memory_release(&session->network_memory);
        list_remove(&session->ended_link);
        map_release(&session->tasks);
        free(session->client_name);
        free(session);
}

struct session *session_new(struct server *s, const struct identity *who, struct slice client_name,
                            uint64_t detach_ms)
{
        struct session *session = mem_new(struct session);
        session->server = s;
        session->number = ++s->last_session;
        random_uuid(session->id);
        memcpy(session->id, s->id, 8); /* session_missing_reason recognizes the server by these bytes */
        memcpy(session->owner, who->owner, sizeof(session->owner));
        session->client_name =
                slice_dup(slice_from(client_name.p, MIN(client_name.n, (size_t)LIMIT_CLIENT_NAME_BYTES)));
        session->detach_ms = detach_ms;
        session->created_at_ms = clock_unix_ms();
        session->timer = timer_new(&s->loop, on_timer, session);
        map_init(&session->tasks);
        list_init(&session->all);
        list_init(&session->finished);
        list_init(&session->detached_link);
        list_init(&session->shell_snapshots);
        network_memory_init(&session->network_memory);
        list_init(&session->ended_link);
        session->task_gone = on_task_gone;
        deferred_init(&session->reap, free_session);
        map_put(&s->sessions, slice_from_str(session->id), session);
        log_info("session", "session=%.13s client=%s", session->id, log_quote(client_name));
        return session;
}

void session_attach(struct session *session, struct client *c)
{
        must(!session->client && !session->is_ended);
        session->client = c;
        c->session = session;
        c->session_number = session->number;
        jobs_inherit(c);
        timer_stop(session->timer);
        list_remove(&session->detached_link);
        struct task *t;
        list_each (t, &session->all, session_link)
                task_reclass(t);
        session_pause_output(session, !conn_wants_output(c->conn));
        list_each (t, &session->all, session_link) {
                task_intercept_tell_again(t);
                task_network_ask_again(t);
        }
}

void session_leave(struct session *session)
{
        session->client->session = NULL;
        session->client = NULL;
        session->probe = timer_free(session->probe);
}

void session_detach(struct session *session)
{
        bool is_stdio = session->client->conn->framing == FRAMING_LINES;
        session_leave(session);
        session_pause_output(session, false); /* the output no longer waits for a slow client */
        if (session->detach_ms == 0 || is_stdio) {
                session_end(session);
                return;
        }
        struct task *t;
        list_each (t, &session->all, session_link)
                task_reclass(t);
        list_append(&session->server->detached_sessions, &session->detached_link);
        session->expires_ms = clock_mono_ms() + session->detach_ms;
        timer_start(session->timer, session->detach_ms);
        log_debug("session detached", "session=%.13s", session->id);
}

bool session_make_room(struct server *s)
{
        struct session *session;
        list_each (session, &s->detached_sessions, detached_link) {
                if (session->counts[TASK_RUNNING] + session->counts[TASK_ENDING] > 0)
                        continue;
                log_info("session makes room for another", "session=%.13s", session->id);
                session_end(session);
                return true;
        }
        return false;
}

/* --- half-dead connections ---------------------------------------------------------------------------------------- */

static void on_probe(void *arg)
{
        struct session *session = arg;
        session->probe = timer_free(session->probe);
        struct client *c = session->client;
        /* `reads` also counts writes that the peer took, so a connection that is only slow stays; one without any progress is
         * dropped. A connection that the server does not read at the moment cannot be judged. */
        if (c && c->conn->reads == session->probe_reads &&
            !(c->conn->blocks & (BLOCK_ASSEMBLY | BLOCK_REQUESTS | BLOCK_PARSE))) {
                log_info("half-dead connection", "session=%.13s peer=%s", session->id,
                         session->client->conn->peer);
                conn_drop(session->client->conn);
        }
}

void session_probe(struct session *session)
{
        if (session->probe || !session->client)
                return;
        session->probe_reads = session->client->conn->reads;
        conn_ping(session->client->conn);
        session->probe = timer_new(&session->server->loop, on_probe, session);
        timer_start(session->probe, LIMIT_HALF_DEAD_MS);
}

/* --- ending sessions ---------------------------------------------------------------------------------------------- */

void session_end(struct session *session)
{
        struct server *s = session->server;
        if (session->is_ended)
                return;
        log_info("session ended", "session=%.13s", session->id);
        must(!session->client);
        session->is_ended = true;
        list_remove(&session->detached_link);
        map_remove(&s->sessions, slice_from_str(session->id));
        list_append(&s->ended_sessions, &session->ended_link);
        session_remember_expired(session);
        if (s->config->shutdown_grace_period_ms == 0 || !has_processes(session)) {
                kill_tasks(session);
                return;
        }
        struct task *t;
        list_each (t, &session->all, session_link)
                task_end_gently(t, END_SESSION);
}

void session_pause_output(struct session *session, bool paused)
{
        struct task *t;
        list_each (t, &session->all, session_link)
                task_pause(t, paused);
}

/* Frees a session at the end of the server: the loop has stopped, so no event will say that its processes are gone. */
static void release_session(struct session *session)
{
        struct task *t;
        list_each (t, &session->all, session_link)
                t->process->is_gone = true;
        forget_session(session);
}

void sessions_release(struct server *s)
{
        struct session *session;
        for (size_t pos = 0; (session = map_next(&s->sessions, &pos));) {
                map_remove(&s->sessions, slice_from_str(session->id));
                list_remove(&session->detached_link);
                release_session(session);
        }
        list_each (session, &s->ended_sessions, ended_link)
                if (session->timer)
                        release_session(session);
        session_forget_expired(s);
}

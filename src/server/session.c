#include "server/session.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/task_internal.h"

#include <errno.h>

/* The id of a session that has ended, kept for a better answer than "unknown". */
struct expired {
        struct list link; /* server::expired */
        char id[UUID_TEXT_BYTES];
        uint64_t at_ms;
};

static void forget_oldest_expired(struct server *s)
{
        struct expired *e = list_first(&s->expired, struct expired, link);
        list_remove(&e->link);
        free(e);
        s->expired_count--;
}

static void forget_old_expired(struct server *s)
{
        for (;;) {
                struct expired *e = list_first(&s->expired, struct expired, link);
                if (!e || (clock_mono_ms() - e->at_ms < LIMIT_EXPIRED_MEMORY_MS &&
                           s->expired_count < LIMIT_EXPIRED_MEMORY))
                        return;
                forget_oldest_expired(s);
        }
}

static void remember_expired(struct session *session)
{
        struct server *s = session->server;
        forget_old_expired(s);
        struct expired *e = mem_new(struct expired);
        memcpy(e->id, session->id, sizeof(e->id));
        e->at_ms = clock_mono_ms();
        list_append(&s->expired, &e->link);
        s->expired_count++;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static void on_timer(void *arg)
{
        struct session *session = arg;
        if (session->is_ended)
                session_kill(session);
        else
                session_end(session);
}

static void free_session(struct deferred *d)
{
        struct session *session = container_of(d, struct session, reap);
        must(list_is_empty(&session->all));
        list_remove(&session->ended_link);
        map_release(&session->tasks);
        free(session->client_name);
        free(session);
}

struct session *session_new(struct server *s, struct slice client_name, uint64_t detach_ms)
{
        struct session *session = mem_new(struct session);
        session->server = s;
        session->number = ++s->last_session;
        random_uuid(session->id);
        memcpy(session->id, s->id, 8); /* tells which life of which server it belongs to */
        session->client_name =
                slice_dup(slice_from(client_name.p, MIN(client_name.n, (size_t)LIMIT_CLIENT_NAME_BYTES)));
        session->detach_ms = detach_ms;
        session->created_at_ms = clock_unix_ms();
        session->timer = timer_new(&s->loop, on_timer, session);
        map_init(&session->tasks);
        list_init(&session->all);
        list_init(&session->ended_link);
        deferred_init(&session->reap, free_session);
        map_put(&s->sessions, slice_from_str(session->id), session);
        log_info("session", "session=%.13s client=%s", session->id, log_quote(client_name));
        return session;
}

struct session *session_find(struct server *s, struct slice id)
{
        return map_find(&s->sessions, id);
}

static bool looks_like_session_id(struct slice id)
{
        if (id.n != UUID_TEXT_BYTES - 1)
                return false;
        for (size_t i = 0; i < id.n; i++) {
                bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
                char ch = id.p[i];
                bool is_hex = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'f');
                if (is_dash ? ch != '-' : !is_hex)
                        return false;
        }
        return true;
}

const char *session_missing_reason(struct server *s, struct slice id)
{
        forget_old_expired(s);
        struct expired *e;
        list_each (e, &s->expired, link) {
                if (slice_eq(id, slice_from_str(e->id)))
                        return "expired";
        }
        if (looks_like_session_id(id) && memcmp(id.p, s->id, 8) != 0)
                return "otherServer";
        return "unknown";
}

void session_attach(struct session *session, struct conn *c)
{
        must(!session->conn && !session->is_ended);
        session->conn = c;
        c->session = session;
        timer_stop(session->timer);
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_reclass(t);
        }
        session_pause_output(session, !conn_wants_output(c));
}

void session_leave(struct session *session)
{
        session->conn->session = NULL;
        session->conn = NULL;
        session->probe = timer_free(session->probe);
}

void session_detach(struct session *session)
{
        bool is_stdio = session->conn->framing == FRAMING_LINES;
        session_leave(session);
        session_pause_output(session, false); /* nobody's reading holds it back any more */
        if (session->detach_ms == 0 || is_stdio) {
                session_end(session);
                return;
        }
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_reclass(t);
        }
        session->expires_ms = clock_mono_ms() + session->detach_ms;
        timer_start(session->timer, session->detach_ms);
        log_debug("session detached", "session=%.13s", session->id);
}

/* --- half-dead connections ---------------------------------------------------------------------------------------- */

static void on_probe(void *arg)
{
        struct session *session = arg;
        session->probe = timer_free(session->probe);
        struct conn *c = session->conn;
        /* `reads` also moves when it takes bytes: a slow one that goes on is alive, one that stands still gives way. Of one
         * that we do not read, for reasons of ours, nothing is known. */
        if (c && c->reads == session->probe_reads && !(c->blocks & (BLOCK_ASSEMBLY | BLOCK_JOBS))) {
                log_info("half-dead connection", "session=%.13s peer=%s", session->id, session->conn->peer);
                conn_drop(session->conn);
        }
}

void session_probe(struct session *session)
{
        if (session->probe || !session->conn)
                return;
        session->probe_reads = session->conn->reads;
        conn_ping(session->conn);
        session->probe = timer_new(&session->server->loop, on_probe, session);
        timer_start(session->probe, LIMIT_HALF_DEAD_MS);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

bool session_has_processes(const struct session *session)
{
        const struct task *t;
        list_each (t, &session->all, session_link) {
                if (t->process && !t->process->is_gone)
                        return true;
        }
        return false;
}

void session_kill(struct session *session)
{
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_end_now(t, END_SESSION);
        }
        session_task_gone(session);
}

void session_end(struct session *session)
{
        struct server *s = session->server;
        if (session->is_ended)
                return;
        log_info("session ended", "session=%.13s", session->id);
        must(!session->conn);
        session->is_ended = true;
        map_remove(&s->sessions, slice_from_str(session->id));
        list_append(&s->ended_sessions, &session->ended_link);
        remember_expired(session);
        if (s->config->shutdown_grace_period_ms == 0 || !session_has_processes(session)) {
                session_kill(session);
                return;
        }
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_end_gently(t, END_SESSION);
        }
}

void session_task_gone(struct session *session)
{
        if (!session->is_ended || session_has_processes(session) || !session->timer)
                return;
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_forget(t);
        }
        session->timer = timer_free(session->timer);
        loop_defer(&session->server->loop, &session->reap);
}

void session_pause_output(struct session *session, bool paused)
{
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_pause(t, paused);
        }
}

void session_wake_readers(struct session *session)
{
        struct task *t;
        list_each (t, &session->all, session_link) {
                task_readers_wake(t);
        }
}

/* Nothing runs any more that could call us: the spawner is gone, and the loop will not turn. */
static void forget_all_tasks(struct session *session)
{
        struct task *t;
        list_each (t, &session->all, session_link) {
                t->process->is_gone = true;
                task_forget(t);
        }
        session->timer = timer_free(session->timer);
        loop_defer(&session->server->loop, &session->reap);
}

void sessions_release(struct server *s)
{
        struct session *session;
        for (size_t pos = 0; (session = map_next(&s->sessions, &pos));) {
                map_remove(&s->sessions, slice_from_str(session->id));
                forget_all_tasks(session);
        }
        list_each (session, &s->ended_sessions, ended_link) {
                if (session->timer)
                        forget_all_tasks(session);
        }
        while (!list_is_empty(&s->expired))
                forget_oldest_expired(s);
}

/* session_life_test: tests which identities find a session, and how sessions without processes are detached, resumed and ended. */
#include "core/req.h"
#include "server/server_rig.h"

static const struct identity alice = { .owner = { 1 } }, bob = { .owner = { 2 } },
                             admin = { .owner = { 3 }, .is_admin = true },
                             personal = { .owner = { 1 }, .is_personal = true };

#define LONG_MS 600000

static struct slice id_of(const struct session *session)
{
        return slice_from_str(session->id);
}

TEST(a_session_is_found_by_its_owner_and_by_admins_only)
{
        struct rig *rig = rig_new();
        struct server *s = &rig->server;
        struct session *session = session_new(s, &alice, S("test"), LONG_MS);
        ok(session_find(s, &alice, id_of(session)) == session);
        ok(session_find(s, &admin, id_of(session)) == session);
        ok(!session_find(s, &bob, id_of(session)));
        eq_str(session_missing_reason(s, &bob, id_of(session)), "unknown");
        ok(!session_find(s, &alice, S("")));
        rig_free(rig);
}

TEST(a_session_that_is_missing_has_expired_or_is_of_another_server_or_unknown)
{
        struct rig *rig = rig_new();
        struct server *s = &rig->server;
        struct session *session = session_new(s, &alice, S("test"), LONG_MS);
        char id[UUID_TEXT_BYTES];
        memcpy(id, session->id, sizeof(id));
        session_end(session);
        ok(!session_find(s, &alice, slice_from_str(id)));
        eq_str(session_missing_reason(s, &alice, slice_from_str(id)), "expired");
        /* Another identity does not learn that the session existed. */
        eq_str(session_missing_reason(s, &bob, slice_from_str(id)), "unknown");
        id[0] = id[0] == 'a' ? 'b' : 'a';
        eq_str(session_missing_reason(s, &alice, slice_from_str(id)), "otherServer");
        eq_str(session_missing_reason(s, &alice, S("no id")), "unknown");
        rig_free(rig);
}

TEST(the_id_is_whole_for_clients_that_may_resume_the_session)
{
        struct rig *rig = rig_new();
        struct session *session = session_new(&rig->server, &alice, S("test"), LONG_MS);
        struct client *own = rig_client(rig, &alice), *other = rig_client(rig, &alice);
        session_attach(session, own);
        eq_slice(session_id_for(session, own), id_of(session));
        eq_u64(session_id_for(session, other).n, SESSION_SHORT_ID_CHARS);
        eq_slice(session_id_for(session, rig_client(rig, &admin)), id_of(session));
        eq_slice(session_id_for(session, rig_client(rig, &personal)), id_of(session));
        rig_free(rig);
}

/* Returns which session a request of this client finds by an id: its name for the tests, or the text of the error. */
static const char *found_by(struct client *c, struct slice id)
{
        static char text[ERR_TEXT_BYTES];
        struct req req = { .client = c, .server = c->server };
        struct err err = ERR_INIT;
        struct session *session = NULL;
        int r = session_named(&req, id, &session, &err);
        eq_int(r, err.code);
        snprintf(text, sizeof(text), "%s", r == 0 ? session->client_name : err.text);
        return text;
}

static struct slice short_id_of(const struct session *session)
{
        return slice_from(session->id, SESSION_SHORT_ID_CHARS);
}

/* Gives the session this short id. */
static void set_short_id(struct session *session, const char *id)
{
        struct map *sessions = &session->server->sessions;
        map_remove(sessions, id_of(session));
        memcpy(session->id, id, SESSION_SHORT_ID_CHARS);
        map_put(sessions, id_of(session), session);
}

TEST(a_request_names_another_session_by_the_id_that_its_client_is_shown)
{
        struct rig *rig = rig_new();
        struct server *s = &rig->server;
        struct session *own = session_new(s, &alice, S("own"), LONG_MS);
        struct session *other = session_new(s, &alice, S("other"), LONG_MS);
        struct session *hidden = session_new(s, &bob, S("hidden"), LONG_MS);
        struct client *c = rig_client(rig, &alice);
        session_attach(own, c);
        set_short_id(own, "5e1f0c9a-0000");
        set_short_id(other, "5e1f0c9a-1111");
        eq_str(found_by(c, slice_from(NULL, 0)), "own");
        eq_str(found_by(c, id_of(own)), "own");
        eq_str(found_by(c, short_id_of(own)), "own");
        eq_str(found_by(c, id_of(other)), "other");
        eq_str(found_by(c, short_id_of(other)), "other");
        ok(!session_is_elsewhere(c, slice_from(NULL, 0)) && !session_is_elsewhere(c, id_of(own)));
        ok(!session_is_elsewhere(c, short_id_of(own)));
        ok(session_is_elsewhere(c, id_of(other)) && session_is_elsewhere(c, short_id_of(other)));
        ok(session_is_elsewhere(c, S("")));
        eq_str(found_by(c, S("x")), "unknown session id x");
        /* Sessions of others do not count, neither alone nor as twins. */
        set_short_id(hidden, other->id);
        eq_str(found_by(c, short_id_of(other)), "other");
        ok(slice_starts(slice_from_str(found_by(c, id_of(hidden))), S("unknown session id ")));

        struct session *twin = session_new(s, &alice, S("twin"), LONG_MS);
        set_short_id(twin, other->id);
        eq_str(found_by(c, short_id_of(other)), "session id 5e1f0c9a-1111 is that of several sessions");
        eq_str(found_by(c, id_of(other)), "other");
        eq_str(found_by(c, id_of(twin)), "twin");
        rig->config.allow_server_scope = false;
        eq_str(found_by(c, id_of(own)), "own");
        eq_str(found_by(c, id_of(other)), "server scope is disabled");
        rig_free(rig);
}

TEST(a_shortened_id_names_nothing_for_clients_that_see_whole_ids)
{
        struct rig *rig = rig_new();
        struct session *session = session_new(&rig->server, &alice, S("other"), LONG_MS);
        const struct identity *who[] = { &admin, &personal };
        for (size_t i = 0; i < ARRAY_LEN(who); i++) {
                struct client *c = rig_client(rig, who[i]);
                struct session *own = session_new(&rig->server, who[i], S("own"), LONG_MS);
                session_attach(own, c);
                eq_str(found_by(c, id_of(session)), "other");
                ok(slice_starts(slice_from_str(found_by(c, short_id_of(session))), S("unknown session id ")));
                ok(slice_starts(slice_from_str(found_by(c, short_id_of(own))), S("unknown session id ")));
                ok(session_is_elsewhere(c, short_id_of(own)));
        }
        rig_free(rig);
}

TEST(a_session_outlives_its_connection_for_the_detach_time)
{
        struct rig *rig = rig_new();
        struct server *s = &rig->server;
        struct session *session = session_new(s, &alice, S("test"), LONG_MS);
        struct client *c = rig_client(rig, &alice);
        session_attach(session, c);
        conn_drop(c->conn);
        ok(!session->client && !session->is_ended);
        ok(session_find(s, &alice, id_of(session)) == session);

        c = rig_client(rig, &alice);
        session_attach(session, c);
        ok(session->client == c && c->session == session);
        ok(list_is_empty(&s->detached_sessions));
        session->detach_ms = 1;
        conn_drop(c->conn);
        while (map_count(&s->sessions) > 0)
                loop_turn(&s->loop, true);
        rig_free(rig);
}

TEST(without_a_detach_time_a_session_ends_with_its_connection_unless_it_is_taken_over)
{
        struct rig *rig = rig_new();
        struct server *s = &rig->server;
        struct session *session = session_new(s, &alice, S("test"), 0);
        struct client *first = rig_client(rig, &alice), *second = rig_client(rig, &alice);
        session_attach(session, first);
        session_leave(session);
        session_attach(session, second);
        conn_drop(first->conn);
        eq_u64(map_count(&s->sessions), 1);
        conn_drop(second->conn);
        eq_u64(map_count(&s->sessions), 0);
        rig_free(rig);
}

TEST(the_session_that_has_been_detached_longest_makes_room)
{
        struct rig *rig = rig_new();
        struct server *s = &rig->server;
        struct session *sessions[3];
        struct client *clients[3];
        for (size_t i = 0; i < ARRAY_LEN(sessions); i++) {
                sessions[i] = session_new(s, &alice, S("test"), LONG_MS);
                clients[i] = rig_client(rig, &alice);
                session_attach(sessions[i], clients[i]);
        }
        ok(!session_make_room(s));
        conn_drop(clients[2]->conn);
        conn_drop(clients[0]->conn);
        sessions[2]->counts[TASK_RUNNING]++; /* a session with a running process stays */
        ok(session_make_room(s));
        ok(sessions[0]->is_ended && !sessions[1]->is_ended && !sessions[2]->is_ended);
        ok(!session_make_room(s));
        sessions[2]->counts[TASK_RUNNING]--;
        ok(session_make_room(s));
        ok(!session_make_room(s));
        eq_u64(map_count(&s->sessions), 1);
        rig_free(rig);
}

TEST(the_ids_of_ended_sessions_are_remembered_up_to_a_limit)
{
        struct rig *rig = rig_new();
        struct server *s = &rig->server;
        for (int i = 0; i < LIMIT_EXPIRED_MEMORY + 3; i++)
                session_end(session_new(s, &alice, S("test"), 0));
        eq_u64(s->expired_count, LIMIT_EXPIRED_MEMORY);
        rig_free(rig);
}

/* session: finds sessions by their ids, and remembers the ids of those that have ended. */
#include "session/session.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "core/req.h"

#include <errno.h>

/* The id of a session that has ended, kept so that clients are told "expired" and not "unknown". */
struct expired {
        struct list link; /* server::expired */
        char id[UUID_TEXT_BYTES];
        uint8_t owner[IDENTITY_BYTES];
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
        const struct expired *e;
        while ((e = list_first(&s->expired, struct expired, link)) &&
               (clock_mono_ms() - e->at_ms >= LIMIT_EXPIRED_MEMORY_MS ||
                s->expired_count >= LIMIT_EXPIRED_MEMORY))
                forget_oldest_expired(s);
}

void session_remember_expired(const struct session *session)
{
        struct server *s = session->server;
        forget_old_expired(s);
        struct expired *e = mem_new(struct expired);
        memcpy(e->id, session->id, sizeof(e->id));
        memcpy(e->owner, session->owner, sizeof(e->owner));
        e->at_ms = clock_mono_ms();
        list_append(&s->expired, &e->link);
        s->expired_count++;
}

void session_forget_expired(struct server *s)
{
        while (!list_is_empty(&s->expired))
                forget_oldest_expired(s);
}

struct session *session_find(struct server *s, const struct identity *who, struct slice id)
{
        if (id.n != UUID_TEXT_BYTES - 1)
                return NULL; /* no session has an id of this length, and hashing a very long one costs time */
        struct session *session = map_find(&s->sessions, id);
        return session && identity_may_see(who, session->owner) ? session : NULL;
}

/* Returns whether the client sees the whole ids of sessions that are not its own. */
static bool sees_whole_ids(const struct client *c)
{
        return c->conn->who.is_admin || c->conn->who.is_personal;
}

struct slice session_id_for(const struct session *session, const struct client *c)
{
        bool is_whole = c->session == session || sees_whole_ids(c);
        return is_whole ? slice_from_str(session->id) : slice_from(session->id, SESSION_SHORT_ID_CHARS);
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

const char *session_missing_reason(struct server *s, const struct identity *who, struct slice id)
{
        forget_old_expired(s);
        struct expired *e;
        list_each (e, &s->expired, link)
                if (slice_eq(id, slice_from_str(e->id)) && identity_may_see(who, e->owner))
                        return "expired";
        if (looks_like_session_id(id) && memcmp(id.p, s->id, 8) != 0)
                return "otherServer";
        return "unknown";
}

int session_unknown(struct server *s, const struct identity *who, struct slice id, struct err *err)
{
        err_set(err, RPC_INVALID_REQUEST, -ENOENT, "unknown session id %.*s", (int)MIN(id.n, 1024), id.p);
        err->reason = session_missing_reason(s, who, id);
        return err->code;
}

/* --- sessions that requests name ---------------------------------------------------------------------------------- */

static bool has_short_id(const struct session *session, struct slice id)
{
        return slice_eq(id, slice_from(session->id, SESSION_SHORT_ID_CHARS));
}

/* Finds a session by its shortened id, for a client that does not see whole ids. Returns 0 with *ret NULL when there is none. */
static int find_short(const struct client *c, struct slice id, struct session **ret, struct err *err)
{
        struct session *session;
        *ret = NULL;
        if (sees_whole_ids(c) || id.n != SESSION_SHORT_ID_CHARS)
                return 0;
        for (size_t pos = 0; (session = map_next(&c->server->sessions, &pos));) {
                if (!has_short_id(session, id) || !identity_may_see(&c->conn->who, session->owner))
                        continue;
                if (*ret) {
                        err->reason = "ambiguous";
                        return err_set(err, RPC_INVALID_REQUEST, -ENOTUNIQ,
                                       "session id %.*s is that of several sessions", SLICE(id));
                }
                *ret = session;
        }
        return 0;
}

int session_named(const struct req *req, struct slice id, struct session **ret, struct err *err)
{
        const struct client *c = req->client;
        if (!id.p || slice_eq(id, slice_from_str(c->session->id))) {
                *ret = c->session;
                return 0;
        }
        int r = req_check_server_scope(req, err);
        if (r < 0)
                return r;
        struct session *found = session_find(c->server, &c->conn->who, id);
        if (!found)
                r = find_short(c, id, &found, err);
        if (r < 0)
                return r;
        if (!found)
                return session_unknown(c->server, &c->conn->who, id, err);
        *ret = found;
        return 0;
}

bool session_is_elsewhere(const struct client *c, struct slice id)
{
        bool is_own = !id.p || slice_eq(id, slice_from_str(c->session->id)) ||
                      (!sees_whole_ids(c) && has_short_id(c->session, id));
        return !is_own;
}

/* session_life: how sessions begin, are attached to connections and detached from them, and end with their tasks. */
#pragma once

#include "session/session.h"

/* Makes a session that is not attached, without a running timer; the caller attaches it. */
struct session *session_new(struct server *s, const struct identity *who, struct slice client_name,
                            uint64_t detach_ms);
void session_attach(struct session *session, struct client *c);
/* Takes the session from its connection. The caller attaches it to another connection in the same turn. */
void session_leave(struct session *session);
/* Called when the connection is gone: begins the detach time. A detach time of 0 ends the session at once. */
void session_detach(struct session *session);
/* Makes room when there are max_sessions sessions: ends the longest detached session without running processes. Returns false
 * when there is none. */
NODISCARD bool session_make_room(struct server *s);
/* Pings the attached connection, which may be dead, and drops it when nothing comes back, so that the next attempt to resume the
 * session succeeds. */
void session_probe(struct session *session);
/* Ends the session: sends SIGTERM to all its processes, and SIGKILL after the grace period (at once when that is 0). */
void session_end(struct session *session);

void session_pause_output(struct session *session, bool paused);

void sessions_release(struct server *s); /* at the end of the server: frees all sessions and tasks */

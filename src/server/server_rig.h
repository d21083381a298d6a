/* server_rig: a server for unit tests, with real connections over socket pairs and without processes, pool and listener. */
#pragma once

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/server.h"
#include "server/client_events.h"
#include "session/session_life.h"
#include "unit.h"

#include <sys/socket.h>
#include <unistd.h>

#define RIG_CLIENTS 4

struct rig {
        struct config config;
        struct server server;
        int peers[RIG_CLIENTS]; /* the clients' ends of the socket pairs */
        size_t peer_count;
};

static inline struct rig *rig_new(void)
{
        struct rig *rig = mem_new(struct rig);
        struct server *s = &rig->server;
        struct err err = ERR_INIT;
        log_set_level(LOG_OFF);
        config_init(&rig->config);
        s->config = &rig->config;
        struct list *lists[] = { &s->expired,       &s->tasks,     &s->detached_sessions,
                                 &s->orphaned_jobs, &s->leftovers, &s->ended_sessions };
        for (size_t i = 0; i < ARRAY_LEN(lists); i++)
                list_init(lists[i]);
        map_init(&s->sessions);
        random_uuid(s->id);
        eq_int(loop_init(&s->loop, &err), 0);
        conns_init(&s->conns, &s->loop, &rig->config.conn, &client_events);
        return rig;
}

/* Connects a client. Clients are numbered from 0 in the order of these calls. */
static inline struct client *rig_client(struct rig *rig, const struct identity *who)
{
        int ends[2];
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        rig->peers[rig->peer_count++] = ends[1];
        struct conn *conn = conn_new_ws(&rig->server.conns, ends[0], "test", who, S(""));
        ok(conn);
        return conn->owner;
}

/* Reads one message that client number `n` has received. Returns its text, "close CODE", or "" when there is none. The text is
 * valid until the next call. */
static inline const char *rig_received(struct rig *rig, size_t n)
{
        static char text[1024];
        unsigned char head[4];
        conn_flush_all(&rig->server.conns);
        if (read(rig->peers[n], head, 2) != 2)
                return "";
        size_t size = head[1];
        if (size == 126) {
                eq_int(read(rig->peers[n], head + 2, 2), 2);
                size = (size_t)head[2] << 8 | head[3];
        }
        ok(size < sizeof(text));
        eq_int(read(rig->peers[n], text, size), size);
        text[size] = '\0';
        if ((head[0] & 15) == WS_CLOSE) {
                unsigned code = (unsigned)(unsigned char)text[0] << 8 | (unsigned char)text[1];
                snprintf(text, sizeof(text), "close %u", code);
        }
        return text;
}

static inline void rig_free(struct rig *rig)
{
        struct server *s = &rig->server;
        conn_drop_all(&s->conns);
        ok(conns_end_threads(&s->conns, 0));
        sessions_release(s);
        s->drain_timer = timer_free(s->drain_timer);
        conns_release(&s->conns);
        loop_release(&s->loop);
        map_release(&s->sessions);
        for (size_t i = 0; i < rig->peer_count; i++)
                fd_close(rig->peers[i]);
        config_release(&rig->config);
        free(rig);
}

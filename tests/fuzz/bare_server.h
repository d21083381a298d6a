/* bare_server: the server of run.c without signals, listener and journal, for harnesses that drive it by hand, and the
 * check that an input leaves no descriptor behind. */
#pragma once

#include "base/mem.h"
#include "core/environment.h"
#include "server/client_events.h"
#include "server/net_helper.h"
#include "session/session_life.h"
#include "watch/watcher.h"

#include <fcntl.h>

#define FDS_MAX 160 /* descriptors below this number are checked */

static struct config config;
static struct server server;

static void flush_all(UNUSED void *arg)
{
        conn_flush_all(&server.conns);
}

static void bare_server_open(void)
{
        struct err err = ERR_INIT;
        /* The loop must not touch files itself: the harnesses replace the file operations, or run them in a jail. */
        server = (struct server){ .config = &config, .quick = { .is_off = true, .fds = -1, .mounts = -1 } };
        struct list *lists[] = { &server.expired,       &server.tasks,       &server.detached_sessions,
                                 &server.orphaned_jobs, &server.leftovers,   &server.ended_sessions,
                                 &server.retained[0],   &server.retained[1], &server.retained[2] };
        for (size_t i = 0; i < ARRAY_LEN(lists); i++)
                list_init(lists[i]);
        map_init(&server.sessions);
        random_uuid(server.id);
        must(loop_init(&server.loop, &err) == 0);
        loop_on_turn_end(&server.loop, flush_all, NULL);
        conns_init(&server.conns, &server.loop, &config.conn, &client_events);
        must(pool_new(&server.loop, LIMIT_POOL_THREADS, &server.pool, &err) == 0);
}

/* Ends the connections and their work. */
static void bare_server_drop(void)
{
        conn_drop_all(&server.conns);
        must(server.conns.count == 0 && server.conns.assembly.used == 0 && server.parked_bytes == 0);
        server.net = net_helper_free(server.net);
        (void)conns_end_threads(&server.conns, LIMIT_POOL_END_MS);
        must(pool_free(server.pool, 0));
        server.watcher = watcher_free(server.watcher);
}

/* Releases the rest of the server, after bare_server_drop and after the harness has released what it added. */
static void bare_server_close(void)
{
        sessions_release(&server);
        server.drain_timer = timer_free(server.drain_timer);
        conns_release(&server.conns);
        loop_release(&server.loop);
        map_release(&server.sessions);
}

static unsigned count_fds(void)
{
        unsigned n = 0;
        for (int fd = 0; fd < FDS_MAX; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

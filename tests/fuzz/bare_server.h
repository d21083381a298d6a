/* bare_server: the server of server.c without signals, listener and journal, for harnesses that drive it by hand, and the
 * check that an input leaves no descriptor behind. */
#pragma once

#include "base/mem.h"
#include "server/conn.h"
#include "server/environment.h"
#include "server/net_helper.h"
#include "server/session.h"
#include "server/watcher.h"

#include <fcntl.h>

#define FDS_MAX 160 /* numbers of descriptors that are looked at */

static struct config config;
static struct server server;

static void flush_all(UNUSED void *arg)
{
        struct conn *c;
        while ((c = list_first(&server.dirty, struct conn, dirty_link)))
                conn_flush(c);
}

static void bare_server_open(void)
{
        struct err err = ERR_INIT;
        server = (struct server){ .config = &config };
        struct list *lists[] = { &server.conns,
                                 &server.dirty,
                                 &server.https,
                                 &server.expired,
                                 &server.tasks,
                                 &server.ended_sessions,
                                 &server.assembly_waiting,
                                 &server.assembly_holding,
                                 &server.retained[0],
                                 &server.retained[1],
                                 &server.retained[2] };
        for (size_t i = 0; i < ARRAY_LEN(lists); i++)
                list_init(lists[i]);
        map_init(&server.sessions);
        random_uuid(server.id);
        server.scratch = mem_alloc(SERVER_SCRATCH_REST + LIMIT_READ_BYTES + BUF_PADDING);
        must(loop_init(&server.loop, &err) == 0);
        loop_on_turn_end(&server.loop, flush_all, NULL);
        spares_init(&server.spares, &server.loop);
        must(pool_new(&server.loop, LIMIT_POOL_THREADS, &server.pool, &err) == 0);
}

/* Connections and their work. */
static void bare_server_drop(void)
{
        struct conn *c;
        list_each (c, &server.conns, link) {
                conn_drop(c);
        }
        must(server.connection_count == 0 && server.assembly_used == 0 && server.parked_bytes == 0);
        server.net = net_helper_free(server.net);
        must(pool_free(server.pool, 0));
        server.watcher = watcher_free(server.watcher);
}

/* The rest, after _drop and the end of what the harness has added. */
static void bare_server_close(void)
{
        sessions_release(&server);
        server.assembly_timer = timer_free(server.assembly_timer);
        server.drain_timer = timer_free(server.drain_timer);
        spares_release(&server.spares);
        loop_release(&server.loop);
        map_release(&server.sessions);
        free(server.scratch);
}

static unsigned count_fds(void)
{
        unsigned n = 0;
        for (int fd = 0; fd < FDS_MAX; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

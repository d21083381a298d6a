/* parked_test: tests the limits of waiting requests, with connections that have no socket. */
#include "core/parked.h"

#include "base/limits.h"
#include "base/mem.h"
#include "core/req.h"
#include "core/server.h"
#include "unit.h"

#include <errno.h>

struct rig {
        struct server server;
        struct client client;
};

static void forget(struct parked *p)
{
        free(p);
}

static int park(struct rig *rig, uint64_t bytes)
{
        struct rpc_id id = { 0 };
        struct req req = { .server = &rig->server, .client = &rig->client, .id = &id };
        struct err err = ERR_INIT;
        struct parked *p = mem_new(struct parked);
        int r = parked_init(p, &req, bytes, forget, &err);
        if (r < 0)
                free(p);
        return r;
}

static struct rig *rig_new(uint64_t others_bytes)
{
        struct rig *rig = mem_new(struct rig);
        rig->server.parked_bytes = others_bytes;
        rig->client.server = &rig->server;
        list_init(&rig->client.parked);
        return rig;
}

static void rig_free(struct rig *rig, uint64_t others_bytes)
{
        parked_drop_all(&rig->client);
        eq_u64(rig->server.parked_bytes, others_bytes);
        eq_u64(rig->client.parked_bytes, 0);
        free(rig);
}

TEST(small_requests_wait_however_much_those_of_other_connections_hold)
{
        const uint64_t full = LIMIT_PARKED_TOTAL_BYTES;
        struct rig *rig = rig_new(full);
        eq_int(park(rig, LIMIT_PARKED_FREE_BYTES), -ENOBUFS);
        for (int i = 0; i < 3; i++)
                eq_int(park(rig, LIMIT_PARKED_FREE_BYTES / 4), 0);
        eq_int(park(rig, LIMIT_PARKED_FREE_BYTES / 4), -ENOBUFS);
        eq_int(park(rig, 0), 0);
        rig_free(rig, full);
}

TEST(large_requests_wait_while_there_is_room_for_them)
{
        struct rig *rig = rig_new(0);
        eq_int(park(rig, LIMIT_PARKED_BYTES), -ENOBUFS);
        eq_int(park(rig, LIMIT_PARKED_BYTES - KIB), 0);
        eq_int(park(rig, KIB), -ENOBUFS);
        rig_free(rig, 0);
}

/* parked: keeps requests that wait, within the limits of their connection and of the server. */
#include "core/parked.h"

#include "base/limits.h"
#include "core/req.h"
#include "core/server.h"

#include <errno.h>

int parked_init(struct parked *p, struct req *req, uint64_t bytes, void (*forget)(struct parked *p),
                struct err *err)
{
        struct client *c = req->client;
        struct server *s = c->server;
        bytes += sizeof(*p) + (req->id->is_string ? req->id->string.n : 0);
        if (c->parked_count >= LIMIT_PARKED_REQUESTS)
                return req_limit(err, "waiting requests of a connection", LIMIT_PARKED_REQUESTS);
        if (bytes > LIMIT_PARKED_BYTES - c->parked_bytes)
                return req_limit(err, "bytes of waiting requests of a connection", LIMIT_PARKED_BYTES);
        uint64_t left = LIMIT_PARKED_TOTAL_BYTES - MIN(s->parked_bytes, LIMIT_PARKED_TOTAL_BYTES);
        if (bytes > left && c->parked_bytes + bytes > LIMIT_PARKED_FREE_BYTES)
                return req_limit(err, "bytes of waiting requests of all connections",
                                 LIMIT_PARKED_TOTAL_BYTES);
        p->client = c;
        p->id = rpc_id_dup(req->id);
        p->bytes = bytes;
        s->parked_bytes += bytes;
        p->forget = forget;
        c->parked_count++;
        c->parked_bytes += p->bytes;
        list_append(&c->parked, &p->client_link);
        return 0;
}

void parked_done(struct parked *p)
{
        struct client *c = p->client;
        c->parked_count--;
        c->parked_bytes -= p->bytes;
        c->server->parked_bytes -= p->bytes;
        list_remove(&p->client_link);
        rpc_id_release(&p->id);
        p->client = NULL;
        p->forget(p);
}

void parked_fail(struct parked *p, const struct err *err)
{
        conn_fail(p->client->conn, &p->id, err, NULL);
        parked_done(p);
}

void parked_drop_all(struct client *c)
{
        struct parked *p;
        while ((p = list_first(&c->parked, struct parked, client_link)))
                parked_done(p);
}

void parked_fail_all(struct client *c, const struct err *err)
{
        struct parked *p;
        while ((p = list_first(&c->parked, struct parked, client_link)))
                parked_fail(p, err);
}

#include "server/parked.h"

#include "server/dispatch.h"

#include <errno.h>

int parked_init(struct parked *p, struct req *req, uint64_t bytes, void (*forget)(struct parked *p),
                struct err *err)
{
        struct conn *c = req->conn;
        struct server *s = c->server;
        bytes += sizeof(*p) + (req->id->is_string ? req->id->string.n : 0);
        if (c->parked_count >= LIMIT_PARKED_REQUESTS)
                return dispatch_limit(err, "waiting requests of a connection", LIMIT_PARKED_REQUESTS);
        if (bytes > LIMIT_PARKED_BYTES - c->parked_bytes)
                return dispatch_limit(err, "bytes of waiting requests of a connection", LIMIT_PARKED_BYTES);
        if (bytes > LIMIT_PARKED_TOTAL_BYTES - s->parked_bytes)
                return dispatch_limit(err, "bytes of waiting requests of all connections",
                                      LIMIT_PARKED_TOTAL_BYTES);
        p->conn = c;
        p->id = rpc_id_dup(req->id);
        p->bytes = bytes;
        s->parked_bytes += bytes;
        p->forget = forget;
        c->parked_count++;
        c->parked_bytes += p->bytes;
        list_append(&c->parked, &p->conn_link);
        return 0;
}

static void leave(struct parked *p)
{
        struct conn *c = p->conn;
        c->parked_count--;
        c->parked_bytes -= p->bytes;
        c->server->parked_bytes -= p->bytes;
        list_remove(&p->conn_link);
        rpc_id_release(&p->id);
        p->conn = NULL;
        p->forget(p);
}

void parked_reply_begin(struct parked *p, size_t hint, struct jsonw *ret)
{
        conn_reply_begin(p->conn, &p->id, hint, ret);
}

void parked_reply_end(struct parked *p, struct jsonw *w)
{
        conn_reply_end(p->conn, &p->id, w);
        leave(p);
}

void parked_done(struct parked *p)
{
        leave(p);
}

void parked_fail(struct parked *p, const struct err *err)
{
        conn_fail(p->conn, &p->id, err, NULL);
        leave(p);
}

void parked_drop_all(struct conn *c)
{
        struct parked *p;
        while ((p = list_first(&c->parked, struct parked, conn_link)))
                leave(p);
}

void parked_fail_all(struct conn *c, const struct err *err)
{
        struct parked *p;
        while ((p = list_first(&c->parked, struct parked, conn_link)))
                parked_fail(p, err);
}

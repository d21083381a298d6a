/* req: the answers and checks that handlers share. */
#include "core/req.h"

#include "core/server.h"

#include <errno.h>

void req_reply_empty(struct client *c, const struct rpc_id *id)
{
        struct jsonw w;
        conn_reply_begin(c->conn, id, 16, &w);
        conn_reply_end(c->conn, id, &w);
}

void req_reply_status(struct client *c, const struct rpc_id *id, const char *status)
{
        struct jsonw w;
        conn_reply_begin(c->conn, id, 64, &w);
        jsonw_member_str(&w, "status", status);
        conn_reply_end(c->conn, id, &w);
}

int req_limit(struct err *err, const char *what, uint64_t value)
{
        err_set(err, RPC_LIMIT, -ENOBUFS, "limit of the server reached: %s (%llu)", what,
                (unsigned long long)value);
        err->limit = what;
        err->limit_value = value;
        return err->code;
}

int req_check_server_scope(const struct req *req, struct err *err)
{
        if (req->server->config->allow_server_scope)
                return 0;
        return err_set(err, RPC_INVALID_REQUEST, -EPERM, "server scope is disabled");
}

/* Clients can observe the order of these checks. */
int req_admit(const struct method *m, const struct client *c, struct err *err)
{
        if (!(m->needs & NEEDS_READY))
                return 0;
        if (!c->is_initialized)
                return err_set(err, RPC_INVALID_REQUEST, -EPROTO,
                               "client must call initialize before using %s methods", m->family);
        if (!c->is_ready)
                return err_set(err, RPC_INVALID_REQUEST, -EPROTO,
                               "client must send initialized before using %s methods", m->family);
        if (!c->session)
                return err_set(err, RPC_INVALID_REQUEST, -ESTALE,
                               "session has been resumed by another connection");
        return 0;
}

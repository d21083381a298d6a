/* m_env: the methods environment/info and environment/status (docs/PROTOCOL.md). */
#include "core/environment.h"
#include "core/server.h"
#include "gate/gate.h"
#include "intercept/tested.h"
#include "proto/decode.h"
#include "server/methods.h"
#include "server/selftest.h"

static int handle_info(struct req *req, UNUSED const void *params, struct err *err)
{
        const struct backends *known = preparer_backends_known(&req->server->confine.preparer);
        int r = known ? 1 : selftest_await(req->server->selftest, req, err);
        if (r <= 0)
                return r;
        struct jsonw w;
        conn_reply_begin(req->client->conn, req->id, ENVIRONMENT_INFO_HINT, &w);
        environment_info_write(&w, known, intercept_means() != INTERCEPT_BY_NOTHING,
                               gate_can_enforce(req->server));
        conn_reply_end(req->client->conn, req->id, &w);
        return 0;
}

static int handle_status(struct req *req, UNUSED const void *params, UNUSED struct err *err)
{
        req_reply_status(req->client, req->id, "ready");
        return 0;
}

const struct method environment_methods[] = {
        { .name = "environment/info",
          .family = "environment info",
          .needs = NEEDS_READY,
          .decode = decode_nothing,
          .handle = handle_info },
        { .name = "environment/status",
          .family = "environment status",
          .needs = NEEDS_READY,
          .decode = decode_nothing,
          .handle = handle_status },
};
const size_t environment_method_count = ARRAY_LEN(environment_methods);

/* m_env: environment/info and environment/status (PROTOCOL.md 8.1, 8.2). */
#include "proto/decode.h"
#include "server/environment.h"
#include "server/methods.h"
#include "server/server.h"

static int handle_info(struct req *req, UNUSED const void *params, struct err *err)
{
        const struct backends *known = preparer_backends_known(&req->server->boxes.preparer);
        int r = known ? 1 : selftest_await(&req->server->selftest, req, err);
        if (r <= 0)
                return r;
        struct jsonw w;
        req_reply_begin(req, ENVIRONMENT_INFO_HINT, &w);
        environment_info_write(&w, known);
        req_reply_end(req, &w);
        return 0;
}

static int handle_status(struct req *req, UNUSED const void *params, UNUSED struct err *err)
{
        struct jsonw w;
        req_reply_begin(req, 32, &w);
        jsonw_object(&w);
        jsonw_member_str(&w, "status", "ready");
        jsonw_object_end(&w);
        req_reply_end(req, &w);
        return 0;
}

const struct method m_environment_info = {
        .name = "environment/info",
        .family = "environment info",
        .needs = NEEDS_READY,
        .decode = decode_nothing,
        .handle = handle_info,
};

const struct method m_environment_status = {
        .name = "environment/status",
        .family = "environment status",
        .needs = NEEDS_READY,
        .decode = decode_nothing,
        .handle = handle_status,
};

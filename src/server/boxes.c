/* boxes: see boxes.h. */
#include "server/boxes.h"

#include "policy/env.h"
#include "proto/process.h"
#include "wire/rpc.h"

int boxes_image(struct preparer *p, struct arena *a, const struct process_start *in, const char *const *env,
                struct err *err)
{
        struct slice tmpdir = slice_from_str(env_get(env, "TMPDIR"));
        struct place place = sandbox_context_place(&in->sandbox, in->cwd, tmpdir);
        int fd = prepare_image(p, a, &in->sandbox.profile, &place, err);
        if (fd >= 0)
                return fd;
        bool is_profile = err->step != NULL; /* otherwise the server has run out of something */
        err->rpc = is_profile ? RPC_INVALID_PARAMS : RPC_INTERNAL;
        err->reason = is_profile ? "sandboxUnavailable" : NULL;
        if (is_profile)
                (void)err_wrap(err, "failed to prepare process sandbox");
        return fd;
}

/* sandbox_check: finds out whether a server knows sandboxes for commands, before a command relies on one.
 *
 * The oldest servers ignore the member `sandbox` of process/start, and would run the command without one. Servers that tell of their machine
 * in the handshake are newer than sandboxes. The others are asked by a process/start that can start nothing: its only
 * member is `sandbox`, of a wrong type. A server that knows the member complains about its type, another one about missing members.
 */
#include "client/client.h"

#include "client/error.h"

#include <errno.h>

static int refuse(struct farhand_error *ret_error)
{
        return error_set(ret_error, -EOPNOTSUPP,
                         "this server knows no sandboxes for commands, and would run it without one");
}

/* Any other answer counts as that of a server without sandboxes. */
static bool is_about_type(const struct farhand_error *error)
{
        return error && error->rpc_code == RPC_INVALID_PARAMS &&
               slice_starts(slice_from_str(error->text), S("invalid type: "));
}

static void on_answer(struct farhand *f, UNUSED void *arg, UNUSED const struct rpc_message *m,
                      const struct farhand_error *error)
{
        struct farhand_error refusal;
        if (error && error->rpc_code == 0)
                return; /* the client has failed, and its calls with it */
        if (is_about_type(error)) {
                f->sandbox_check = SANDBOX_KNOWN;
                calls_send_waiting(f);
                return;
        }
        f->sandbox_check = SANDBOX_UNKNOWN;
        (void)refuse(&refusal);
        calls_fail_flagged(f, CALL_NEEDS_SANDBOX, &refusal);
}

int sandbox_check_begin(struct farhand *f, struct farhand_error *ret_error)
{
        struct jsonw w;
        if (f->wants_uris)
                f->sandbox_check = SANDBOX_KNOWN;
        if (f->sandbox_check == SANDBOX_UNKNOWN)
                return refuse(ret_error);
        if (f->sandbox_check != SANDBOX_UNASKED)
                return 0;
        struct call *call = call_begin(f, "process/start", &w, ret_error);
        if (!call)
                return -EAGAIN;
        jsonw_object(&w);
        jsonw_member_u64(&w, "sandbox", 0);
        jsonw_object_end(&w);
        int r = call_end(f, call, &w, FARHAND_REPEAT, on_answer, NULL, ret_error);
        if (r == 0)
                f->sandbox_check = SANDBOX_ASKED;
        return r;
}

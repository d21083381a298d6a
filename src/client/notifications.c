/* notifications: passes each notification of the server on to its process, its watch or its HTTP request, or else to the program. */
#include "client/client.h"

#include "base/mem.h"

void client_on_notification(struct farhand *f, const struct rpc_message *m)
{
        if (slice_starts(m->method, S("process/")) || slice_eq(m->method, S("network/policyDecision"))) {
                client_process_on_notification(f, m);
                return;
        }
        if (slice_eq(m->method, S("fs/changed")) && client_watch_on_changed(f, m))
                return;
        if (slice_eq(m->method, S("fs/missingChanged")) && client_missing_on_changed(f, m))
                return;
        if (slice_eq(m->method, S("http/request/bodyDelta")) && client_http_on_body(f, m))
                return;
        if (!f->options.on_notification)
                return;
        _free_ char *method = slice_dup(m->method);
        _free_ char *params = m->params ? slice_dup(json_raw(&m->doc, m->params)) : mem_strdup("null");
        f->options.on_notification(f, f->options.arg, method, params);
}

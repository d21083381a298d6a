/* task_denied: decides at the exit of a sandboxed command, from its output, whether the sandbox is the cause of its failure
 * (denial/denied.h). */
#include "base/uri.h"
#include "denial/denials.h"
#include "session/task_internal.h"
#include "wire/jsonw.h"

#include <signal.h>

/* Returns the chunk at which the scan begins: the oldest for which no more than DENIED_TEXT_MAX bytes are scanned. */
static const struct chunk *first_scanned(const struct output *o)
{
        const struct chunk *first = o->last;
        uint64_t bytes = first ? first->len : 0;
        while (first && first->prev && bytes + first->prev->len <= DENIED_TEXT_MAX) {
                first = first->prev;
                bytes += first->len;
        }
        return first;
}

bool task_output_denied(const struct output *o, bool is_offline, int exit_code)
{
        if (exit_code == 0)
                return false;
        struct denied_scan scan;
        denied_scan_init(&scan, is_offline);
        for (const struct chunk *c = first_scanned(o); c; c = c->next)
                denied_scan_feed(&scan, c->stream == STREAM_STDERR, chunk_slice(c));
        return denied_by_output(&scan, exit_code);
}

/* --- what the sandbox refused ------------------------------------------------------------------------------------- */

static void write_denial(struct jsonw *w, const struct denial *d, const char *source)
{
        _buf_ struct buf uri = BUF_INIT(DENIALS_PATH_BYTES * 3 + 32);
        jsonw_object(w);
        jsonw_member_str(w, "operation", d->operation);
        if (d->path.p && uri_from_path(&uri, d->path) == 0)
                jsonw_member_string(w, "path", buf_slice(&uri));
        if (d->address.p)
                jsonw_member_string(w, "address", d->address);
        jsonw_member_str(w, "source", source);
        jsonw_object_end(w);
}

/* Writes as many denials as fit into TASK_DENIALS_BYTES, so that the command cannot make the array large. */
static char *write_denials(const struct denials *d, int exit_signal)
{
        _buf_ struct buf json = BUF_INIT(TASK_DENIALS_BYTES);
        struct jsonw w;
        jsonw_begin(&w, &json);
        jsonw_array(&w);
        if (exit_signal == SIGSYS)
                write_denial(&w, &(struct denial){ .operation = "systemCall" }, "signal");
        for (size_t i = 0; i < d->count; i++)
                if (json.n + d->list[i].path.n * 3 + d->list[i].address.n + 112 < TASK_DENIALS_BYTES)
                        write_denial(&w, &d->list[i], "output");
        jsonw_array_end(&w);
        return jsonw_end(&w) == 0 ? buf_take(&json) : NULL;
}

char *task_denials(const struct output *o, bool is_offline, int exit_signal)
{
        struct denials d;
        denials_init(&d, is_offline, slice_from(NULL, 0)); /* no cwd: the command may have changed it */
        for (const struct chunk *c = first_scanned(o); c; c = c->next)
                denials_feed(&d, c->stream == STREAM_STDERR, chunk_slice(c));
        denials_end(&d);
        char *json = write_denials(&d, exit_signal);
        denials_release(&d);
        return json;
}

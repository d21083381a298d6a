/* task_denied: was it the sandbox? Asked once, at the exit of a sandboxed command, of what it printed (sandbox/denied.h).
 */
#include "sandbox/denied.h"
#include "server/task_internal.h"

/* The oldest of the newest chunks that together are not larger than what is looked at. */
static const struct chunk *first_of(const struct output *o)
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
        for (const struct chunk *c = first_of(o); c; c = c->next)
                denied_scan_feed(&scan, c->stream == STREAM_STDERR, chunk_slice(c));
        return denied_by_output(&scan, exit_code);
}

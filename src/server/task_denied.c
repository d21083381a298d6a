/* task_denied: was it the sandbox? Asked once, at the exit of a sandboxed command, of what it printed (sandbox/denied.h).
 */
#include "base/uri.h"
#include "sandbox/denied.h"
#include "server/task_internal.h"
#include "wire/jsonw.h"

#include <signal.h>

#define LINE_MAX_BYTES 4096 /* a longer line is not looked at for what was refused */
#define PATH_MAX_BYTES 512  /* a longer path is left out */

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

/* --- what was refused --------------------------------------------------------------------------------------------- */

struct report {
        struct arena arena;
        struct denied_scan scan;
        struct denied_line list[TASK_DENIALS_MAX]; /* no two alike */
        size_t count;
        struct {
                struct buf bytes; /* its beginning, from earlier chunks */
                bool is_too_long;
        } line[2];
};

static void report_add(struct report *r, struct denied_line d)
{
        if (d.path.n > PATH_MAX_BYTES || slice_has_nul(d.path))
                d.path = slice_from(NULL, 0);
        for (size_t i = 0; i < r->count; i++)
                if (strcmp(r->list[i].operation, d.operation) == 0 && slice_eq(r->list[i].path, d.path))
                        return;
        if (r->count == TASK_DENIALS_MAX)
                return;
        if (d.path.p)
                d.path.p = arena_dup(&r->arena, d.path);
        r->list[r->count++] = d;
}

static void report_line(struct report *r, bool is_stderr, struct slice end)
{
        struct buf *begun = &r->line[is_stderr].bytes;
        struct slice line = end;
        bool is_too_long = r->line[is_stderr].is_too_long || end.n > LINE_MAX_BYTES;
        if (begun->n > 0) {
                is_too_long = is_too_long || buf_append(begun, end) < 0;
                line = buf_slice(begun);
        }
        struct denied_line d;
        if (!is_too_long && denied_line_read(&r->scan, slice_trim(line), &d))
                report_add(r, d);
        buf_truncate(begun, 0);
        r->line[is_stderr].is_too_long = false;
}

static void report_chunk(struct report *r, bool is_stderr, struct slice bytes)
{
        const char *newline;
        while ((newline = memchr(bytes.p, '\n', bytes.n)) != NULL) {
                size_t n = (size_t)(newline - bytes.p);
                report_line(r, is_stderr, slice_from(bytes.p, n));
                bytes = slice_from(newline + 1, bytes.n - n - 1);
        }
        if (bytes.n > 0 && buf_append(&r->line[is_stderr].bytes, bytes) < 0)
                r->line[is_stderr].is_too_long = true;
}

static void write_denial(struct jsonw *w, const struct denied_line *d, const char *source)
{
        _buf_ struct buf uri = BUF_INIT(PATH_MAX_BYTES * 3 + 32);
        jsonw_object(w);
        jsonw_member_str(w, "operation", d->operation);
        if (d->path.p && uri_from_path(&uri, d->path) == 0)
                jsonw_member_string(w, "path", buf_slice(&uri));
        jsonw_member_str(w, "source", source);
        jsonw_object_end(w);
}

/* As many as fit; the size must not depend on what a command prints. */
static char *report_write(const struct report *r, int exit_signal)
{
        _buf_ struct buf json = BUF_INIT(TASK_DENIALS_BYTES);
        struct jsonw w;
        jsonw_begin(&w, &json);
        jsonw_array(&w);
        if (exit_signal == SIGSYS)
                write_denial(&w, &(struct denied_line){ .operation = "systemCall" }, "signal");
        for (size_t i = 0; i < r->count; i++)
                if (json.n + r->list[i].path.n * 3 + 96 < TASK_DENIALS_BYTES)
                        write_denial(&w, &r->list[i], "output");
        jsonw_array_end(&w);
        return jsonw_end(&w) == 0 ? buf_take(&json) : NULL;
}

char *task_denials(const struct output *o, bool is_offline, int exit_signal)
{
        struct report r = { .arena = ARENA_INIT };
        denied_scan_init(&r.scan, is_offline);
        for (size_t i = 0; i < ARRAY_LEN(r.line); i++)
                buf_init(&r.line[i].bytes, LINE_MAX_BYTES);
        for (const struct chunk *c = first_of(o); c; c = c->next)
                report_chunk(&r, c->stream == STREAM_STDERR, chunk_slice(c));
        for (size_t i = 0; i < ARRAY_LEN(r.line); i++) {
                report_line(&r, i == 1, S("")); /* without an end */
                buf_release(&r.line[i].bytes);
        }
        char *json = report_write(&r, exit_signal);
        arena_release(&r.arena);
        return json;
}

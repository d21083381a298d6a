/* process: the events of the processes of a client: told in order, and made whole again after a lost connection. */
#include "client/client_internal.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"
#include "client/error.h"

#include <errno.h>
#include <inttypes.h>

static struct farhand_process *process_find(struct farhand *f, struct slice id)
{
        struct farhand_process *p;
        list_each (p, &f->processes, link)
                if (!p->is_freed && slice_eq(slice_from_str(p->id), id))
                        return p;
        return NULL;
}

/* Inside of a step a process stays until the end of the step: callers of the callback that freed it still hold it. */
void client_process_release(struct farhand_process *p)
{
        calls_forget(p->client, NULL, p);
        p->is_freed = true;
        p->state = PROCESS_OVER;
        if (p->client->depth > 0)
                return;
        list_remove(&p->link);
        sequence_release(&p->sequence);
        free(p->id);
        free(p);
}

void client_processes_sweep(struct farhand *f)
{
        struct farhand_process *p;
        list_each (p, &f->processes, link)
                if (p->is_freed)
                        client_process_release(p);
}

void client_process_fail(struct farhand_process *p, const struct farhand_error *error)
{
        if (p->state == PROCESS_OVER)
                return;
        p->state = PROCESS_OVER;
        p->failure = *error;
        p->has_failed = true;
        sequence_release(&p->sequence);
        if (p->events.on_failed)
                p->events.on_failed(p, p->arg, error);
}

static void fail_with(struct farhand_process *p, int code, const char *prefix, const char *text)
{
        struct farhand_error error;
        error_set(&error, code, "%s%s", prefix, text);
        client_process_fail(p, &error);
}

void client_process_tell_writable(struct farhand_process *p)
{
        p->wants_room = false;
        if (p->state == PROCESS_RUNNING && p->events.on_writable)
                p->events.on_writable(p, p->arg);
}

static void tell(struct farhand_process *p, const struct event *event)
{
        switch (event->kind) {
        case EVENT_OUTPUT:
                if (p->events.on_output && event->n > 0)
                        p->events.on_output(p, p->arg, event->stream, event->bytes, event->n);
                return;
        case EVENT_EXITED:
                if (p->has_exited) /* a process exits once, whatever its server says */
                        return;
                p->has_exited = true;
                p->exit = event->exit;
                if (p->events.on_exited)
                        p->events.on_exited(p, p->arg, &p->exit);
                return;
        case EVENT_CLOSED:
                p->state = PROCESS_OVER;
                if (p->events.on_closed)
                        p->events.on_closed(p, p->arg);
                return;
        }
}

/* Tells what is due, in order. */
static void tell_all(struct farhand_process *p)
{
        struct event *event;
        if (p->state == PROCESS_STARTING) /* the answer to the start comes first */
                return;
        while (p->state == PROCESS_RUNNING && (event = sequence_take(&p->sequence))) {
                tell(p, event);
                event_free(event);
        }
        bool has_hole = !list_is_empty(&p->sequence.early);
        p->hole_since_ms = !has_hole ? 0 : p->hole_since_ms ? p->hole_since_ms : clock_mono_ms();
}

/* ---- decoding ---- */

static bool get_u64(const struct json_doc *d, const struct json *object, struct slice key, uint64_t *ret)
{
        const struct json *value = json_get(d, object, key);
        return value && json_u64(d, value, ret) == 0;
}

static bool get_true(const struct json_doc *d, const struct json *object, struct slice key)
{
        const struct json *value = json_get(d, object, key);
        return value && value->type == JSON_TRUE;
}

/* Copies a short word; one that is longer is left out. */
static void get_word(const struct json_doc *d, const struct json *object, struct slice key, char *ret,
                     size_t size)
{
        const struct json *value = json_get(d, object, key);
        struct slice raw = value && value->type == JSON_STRING ? json_raw(d, value) : S("");
        if (raw.n < size) {
                memcpy(ret, raw.p, raw.n);
                ret[raw.n] = '\0';
        }
}

static void get_exit(const struct json_doc *d, const struct json *object, struct farhand_exit *ret)
{
        int64_t code = -1;
        const struct json *value = json_get(d, object, S("exitCode"));
        if (!value || json_i64(d, value, &code) < 0 || code < INT32_MIN || code > INT32_MAX)
                code = -1;
        *ret = (struct farhand_exit){ .code = (int)code };
        get_word(d, object, S("signal"), ret->signal, sizeof(ret->signal));
        get_word(d, object, S("reason"), ret->reason, sizeof(ret->reason));
        ret->core_dumped = get_true(d, object, S("coreDumped"));
        ret->sandbox_denied = get_true(d, object, S("sandboxDenied"));
}

/* Reads seq, stream and chunk. Returns false when one is missing or wrong. The bytes are to be freed. */
static bool get_output(const struct json_doc *d, const struct json *object, struct event *ret)
{
        static const char *const names[] = {
                [FARHAND_STDOUT] = "stdout", [FARHAND_STDERR] = "stderr", [FARHAND_PTY] = "pty"
        };
        const struct json *stream = json_get(d, object, S("stream")),
                          *chunk = json_get(d, object, S("chunk"));
        if (!stream || stream->type != JSON_STRING || !chunk || chunk->type != JSON_STRING ||
            chunk->has_escape)
                return false;
        size_t which = slice_find(json_raw(d, stream), names, ARRAY_LEN(names));
        struct slice text = json_raw(d, chunk);
        *ret = (struct event){ .kind = EVENT_OUTPUT, .stream = (enum farhand_stream)which };
        if (which == ARRAY_LEN(names) || !get_u64(d, object, S("seq"), &ret->seq))
                return false;
        ret->bytes = malloc(base64_decoded_max(text.n) + 1); /* the server chose the size */
        ssize_t n = ret->bytes ? base64_decode(ret->bytes, text.p, text.n, NULL) : -1;
        if (n < 0) {
                free(ret->bytes);
                return false;
        }
        ret->n = (size_t)n;
        return true;
}

/* ---- notifications ---- */

static void put(struct farhand_process *p, const struct event *event)
{
        struct err err = ERR_INIT;
        if (sequence_put(&p->sequence, event, &err) < 0)
                fail_with(p, err.code, "", err.text);
        else
                tell_all(p);
}

static void on_output(struct farhand_process *p, const struct rpc_message *m)
{
        struct event event;
        if (!get_output(&m->doc, m->params, &event)) {
                fail_with(p, -EPROTO, "", "the server sent output that cannot be read");
                return;
        }
        put(p, &event);
        free(event.bytes);
}

/* Older servers give the close no number: it is the last of all. */
static uint64_t last_number(const struct farhand_process *p)
{
        const struct sequence *s = &p->sequence;
        return list_is_empty(&s->early) ? s->last : list_entry(s->early.prev, struct event, link)->seq;
}

void client_process_on_notification(struct farhand *f, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct json *id = json_get(&m->doc, m->params, S("processId"));
        bool is_process = slice_starts(m->method, S("process/"));
        if (!is_process || !id || id->type != JSON_STRING) {
                if (f->options.on_notification && !is_process) {
                        _free_ char *method = slice_dup(m->method);
                        _free_ char *params =
                                m->params ? slice_dup(json_raw(&m->doc, m->params)) : mem_strdup("null");
                        f->options.on_notification(f, f->options.arg, method, params);
                }
                return;
        }
        struct farhand_process *p = process_find(f, json_string(&a, &m->doc, id));
        if (!p || p->state == PROCESS_OVER)
                return;
        if (slice_eq(m->method, S("process/output"))) {
                on_output(p, m);
        } else if (slice_eq(m->method, S("process/exited"))) {
                struct event event = { .kind = EVENT_EXITED };
                get_exit(&m->doc, m->params, &event.exit);
                if (get_u64(&m->doc, m->params, S("seq"), &event.seq))
                        put(p, &event);
        } else if (slice_eq(m->method, S("process/closed"))) {
                struct event event = { .kind = EVENT_CLOSED };
                if (!get_u64(&m->doc, m->params, S("seq"), &event.seq))
                        event.seq = last_number(p) + 1;
                put(p, &event);
        }
}

/* ---- recovery ---- */

static void on_read(struct farhand *f, void *arg, const struct rpc_message *m,
                    const struct farhand_error *error);

int client_process_read_missed(struct farhand_process *p, struct farhand_error *ret_error)
{
        struct jsonw w;
        if (p->is_reading)
                return 0;
        struct call *call = call_begin(p->client, "process/read", &w, ret_error);
        if (!call)
                return p->client->state == FARHAND_FAILED ? p->client->failure.code : -EAGAIN;
        jsonw_object(&w);
        jsonw_member_str(&w, "processId", p->id);
        jsonw_member_u64(&w, "afterSeq", p->sequence.last);
        jsonw_member_u64(&w, "waitMs", 0);
        jsonw_object_end(&w);
        /* Not repeated: after a loss every process is asked anew. */
        int r = call_end(p->client, call, &w, 0, on_read, p, ret_error);
        p->is_reading = r == 0;
        return r;
}

/* The same, where nobody waits for the result: a process that cannot be asked is lost. */
static void read_missed(struct farhand_process *p)
{
        struct farhand_error error;
        if (client_process_read_missed(p, &error) < 0)
                client_process_fail(p, &error);
}

/* When the process is to be asked for what its hole hides; UINT64_MAX: not at all. */
static uint64_t due_ms(const struct farhand_process *p)
{
        return p->state == PROCESS_RUNNING && p->hole_since_ms && !p->is_reading ? p->hole_since_ms + HOLE_MS
                                                                                 : UINT64_MAX;
}

uint64_t client_processes_due_ms(const struct farhand *f)
{
        struct farhand_process *p;
        uint64_t due = UINT64_MAX;
        if (f->state == FARHAND_READY)
                list_each (p, &f->processes, link)
                        due = MIN(due, due_ms(p));
        return due;
}

void client_processes_on_time(struct farhand *f, uint64_t now_ms)
{
        struct farhand_process *p;
        if (f->state != FARHAND_READY)
                return;
        list_each (p, &f->processes, link) {
                if (now_ms < due_ms(p))
                        continue;
                p->hole_since_ms = now_ms;
                read_missed(p);
        }
}

void client_processes_recover(struct farhand *f)
{
        struct farhand_process *p;
        list_each (p, &f->processes, link)
                if (p->state == PROCESS_RUNNING || (p->state == PROCESS_STARTING && p->is_start_unknown))
                        read_missed(p);
}

/* Lays the answer over what is known. Returns 0, or -errno with *err filled. */
static int merge(struct farhand_process *p, const struct rpc_message *m, struct err *err)
{
        const struct json *chunks = json_get(&m->doc, m->result, S("chunks"));
        struct sequence_state state = { .has_exited = get_true(&m->doc, m->result, S("exited")),
                                        .is_closed = get_true(&m->doc, m->result, S("closed")) };
        if (!chunks || chunks->type != JSON_ARRAY ||
            !get_u64(&m->doc, m->result, S("nextSeq"), &state.next_seq))
                return err_set(err, 0, -EPROTO, "the server's answer to process/read cannot be read");
        get_exit(&m->doc, m->result, &state.exit);
        p->sequence.is_filling = true;
        int r = 0;
        uint64_t before = 0; /* out of order, thousands of them would take very long to put into order */
        json_each (chunk, &m->doc, chunks) {
                struct event event;
                bool is_good = get_output(&m->doc, chunk, &event);
                if (is_good && event.seq <= before) {
                        free(event.bytes);
                        is_good = false;
                }
                if (!is_good) {
                        r = err_set(err, 0, -EPROTO, "the server's answer to process/read cannot be read");
                        break;
                }
                before = event.seq;
                r = sequence_put(&p->sequence, &event, err);
                free(event.bytes);
                if (r < 0)
                        break;
        }
        p->sequence.is_filling = false;
        return r < 0 ? r : sequence_fill(&p->sequence, &state, err);
}

static void on_read(struct farhand *f, void *arg, const struct rpc_message *m,
                    const struct farhand_error *error)
{
        struct farhand_process *p = arg;
        struct err err = ERR_INIT;
        struct farhand_error failure;
        p->is_reading = false;
        if (p->state == PROCESS_OVER || (error && f->state == FARHAND_RECOVERING))
                return;
        if (error && p->is_start_unknown) {
                error_set(&failure, -ECONNRESET, "the connection was lost while the process was started: %s",
                          error->text);
                client_process_fail(p, &failure);
                return;
        }
        if (error) {
                error_set(&failure, error->code, "failed to recover process %s: %s", p->id, error->text);
                client_process_fail(p, &failure);
                return;
        }
        if (p->state == PROCESS_STARTING)
                client_process_on_started(p, -1);
        if (p->state == PROCESS_OVER)
                return;
        if (merge(p, m, &err) < 0) {
                error_set(&failure, err.code, "failed to recover process %s: %s", p->id, err.text);
                if (f->state == FARHAND_READY)
                        (void)farhand_process_terminate(p);
                client_process_fail(p, &failure);
                return;
        }
        tell_all(p);
}

void client_process_on_started(struct farhand_process *p, int64_t pid)
{
        p->state = PROCESS_RUNNING;
        p->is_start_unknown = false;
        if (p->events.on_started)
                p->events.on_started(p, p->arg, pid);
        if (p->wants_room)
                client_process_tell_writable(p);
        tell_all(p);
}

void client_processes_fail_all(struct farhand *f, const struct farhand_error *error)
{
        struct farhand_process *p;
        list_each (p, &f->processes, link)
                client_process_fail(p, error);
}

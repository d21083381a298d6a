/* process: takes the events of the processes of a client, and tells them to the program in order. */
#include "client/client.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>
#include <inttypes.h>

/* Frees a process. When a callback of the program frees the process inside of a farhand_step, its memory stays until the end of the
 * step, because the functions that called the callback still use it. */
void client_process_release(struct farhand_process *p)
{
        calls_forget(p->client, NULL, p);
        client_network_questions_drop(p);
        p->is_freed = true;
        p->state = PROCESS_OVER;
        if (p->client->depth > 0)
                return;
        list_remove(&p->link);
        sequence_release(&p->sequence);
        if (p->kept)
                head_tail_release(p->kept);
        free(p->kept);
        free(p->id);
        free(p->start_answer);
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
        client_network_questions_drop(p);
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

void client_process_tell(struct farhand_process *p, const struct event *event)
{
        switch (event->kind) {
        case EVENT_OUTPUT:
                if (p->kept)
                        head_tail_put(p->kept, slice_from(event->bytes, event->n));
                if (p->events.on_output && event->n > 0)
                        p->events.on_output(p, p->arg, event->stream, event->bytes, event->n);
                return;
        case EVENT_EXITED:
                if (p->has_exited) /* a second exit is ignored: the server may send anything */
                        return;
                p->has_exited = true;
                p->exit = event->exit;
                if (p->events.on_exited)
                        p->events.on_exited(p, p->arg, &p->exit);
                return;
        case EVENT_CLOSED:
                p->state = PROCESS_OVER;
                client_network_questions_drop(p);
                if (p->events.on_closed)
                        p->events.on_closed(p, p->arg);
                return;
        case EVENT_GAP:
                if (p->kept)
                        head_tail_skip(p->kept, event->lost_bytes);
                if (p->events.on_gap)
                        p->events.on_gap(p, p->arg, event->seq, event->last_seq, event->lost_bytes);
                return;
        }
}

void client_process_tell_all(struct farhand_process *p)
{
        struct event *event;
        if (p->state == PROCESS_STARTING) /* the answer to the start comes first */
                return;
        while (p->state == PROCESS_RUNNING && (event = sequence_take(&p->sequence))) {
                client_process_tell(p, event);
                event_free(event);
        }
        bool has_hole = !list_is_empty(&p->sequence.early);
        p->hole_since_ms = !has_hole ? 0 : p->hole_since_ms ? p->hole_since_ms : clock_mono_ms();
}

/* ---- decoding ---- */

/* Copies a short text member; a text longer than `size` is left out. */
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

void client_exit_read(const struct json_doc *d, const struct json *object, struct farhand_exit *ret)
{
        int64_t code = -1;
        const struct json *value = json_get(d, object, S("exitCode"));
        if (!value || json_i64(d, value, &code) < 0 || code < INT32_MIN || code > INT32_MAX)
                code = -1;
        *ret = (struct farhand_exit){ .code = (int)code };
        get_word(d, object, S("signal"), ret->signal, sizeof(ret->signal));
        get_word(d, object, S("reason"), ret->reason, sizeof(ret->reason));
        ret->core_dumped = member_is_true(d, object, S("coreDumped"));
        ret->sandbox_denied = member_is_true(d, object, S("sandboxDenied"));
        ret->is_denial_told = json_get(d, object, S("sandboxDenied")) != NULL;
}

bool client_output_read(const struct json_doc *d, const struct json *object, struct event *ret)
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
        if (which == ARRAY_LEN(names) || !member_u64(d, object, S("seq"), &ret->seq))
                return false;
        /* This is malloc, not mem_alloc: the server chose the size, so a failure must not end the program. */
        ret->bytes = malloc(base64_decoded_max(text.n) + 1);
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
        int r = sequence_put(&p->sequence, event, &err);
        if (r < 0 && p->is_adopting)
                p->dropped_seq =
                        MAX(p->dropped_seq, event->seq); /* the server will be asked for these events */
        else if (r < 0)
                fail_with(p, err.code, "", err.text);
        else
                client_process_tell_all(p);
}

static void on_output(struct farhand_process *p, const struct rpc_message *m)
{
        struct event event;
        if (!client_output_read(&m->doc, m->params, &event)) {
                fail_with(p, -EPROTO, "", "the server sent output that cannot be read");
                return;
        }
        put(p, &event);
        free(event.bytes);
}

/* Returns a number for the close of a process, to which older servers give none: the close is the last event. */
static uint64_t last_number(const struct farhand_process *p)
{
        const struct sequence *s = &p->sequence;
        return list_is_empty(&s->early) ? s->last : list_entry(s->early.prev, struct event, link)->seq;
}

static void on_event(struct farhand_process *p, const struct rpc_message *m)
{
        if (slice_eq(m->method, S("process/execRequested"))) {
                client_process_on_exec(p, m);
        } else if (slice_eq(m->method, S("network/policyDecision"))) {
                client_process_on_network_decision(p, m);
        } else if (slice_eq(m->method, S("process/output"))) {
                on_output(p, m);
        } else if (slice_eq(m->method, S("process/exited"))) {
                struct event event = { .kind = EVENT_EXITED };
                client_exit_read(&m->doc, m->params, &event.exit);
                if (member_u64(&m->doc, m->params, S("seq"), &event.seq))
                        put(p, &event);
        } else if (slice_eq(m->method, S("process/closed"))) {
                struct event event = { .kind = EVENT_CLOSED };
                if (!member_u64(&m->doc, m->params, S("seq"), &event.seq))
                        event.seq = last_number(p) + 1;
                put(p, &event);
        }
}

void client_process_on_notification(struct farhand *f, const struct rpc_message *m)
{
        _arena_ struct arena a = ARENA_INIT;
        struct slice id = member_string(&a, &m->doc, m->params, S("processId"));
        struct farhand_process *p;
        /* A program may have two objects for one process, when it adopted a process that it had started: each object is told. */
        list_each (p, &f->processes, link)
                if (p->state != PROCESS_OVER && slice_eq(slice_from_str(p->id), id))
                        on_event(p, m);
}

void client_process_on_started(struct farhand_process *p, int64_t pid)
{
        p->state = PROCESS_RUNNING;
        p->is_start_unknown = false;
        if (p->events.on_started)
                p->events.on_started(p, p->arg, pid);
        if (p->wants_room)
                client_process_tell_writable(p);
        client_process_tell_all(p);
}

void client_processes_fail_all(struct farhand *f, const struct farhand_error *error)
{
        struct farhand_process *p;
        list_each (p, &f->processes, link)
                client_process_fail(p, error);
}

/* task_read: process/read, at once or as a long poll (PROTOCOL.md 6.3). */
#include "base/base64.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proto/process.h"
#include "server/exit_record.h"
#include "server/task_internal.h"

#include <errno.h>

struct reader {
        struct parked parked;
        struct list link; /* task::readers */
        struct task *task;
        struct timer *timer;
        uint64_t deadline_ms;
        struct process_read ask; /* its process_id is not kept */
};

/* Is there an answer that the reader does not have to wait for? */
static bool has_news(const struct process *p, const struct process_read *ask)
{
        if (p->state == PROC_STARTING)
                return false;
        struct output_gap gap;
        if (p->state == PROC_CLOSED || output_after(&p->output, ask->after_seq) ||
            output_gap_after(&p->output, ask->after_seq, &gap))
                return true;
        return process_has_exited(p) && ask->after_seq < p->next_seq - 1;
}

#define CHUNK_WIRE_BYTES 64    /* around the text of a chunk */
#define ANSWER_WIRE_BYTES 4096 /* around all chunks */

/* Which chunks: the first always, more while the reader's budget and the size of a message hold. *ret_end is the chunk
 * behind the last one. Returns about their size on the wire. */
static size_t choose(const struct chunk *first, const struct process_read *ask, size_t max_wire,
                     const struct chunk **ret_end)
{
        uint64_t total = 0;
        size_t wire = 0;
        const struct chunk *c = first;
        for (; c; c = c->next) {
                size_t more = base64_encoded_size(c->len) + CHUNK_WIRE_BYTES;
                bool is_over =
                        ask->has_max_bytes && (total >= ask->max_bytes || c->len > ask->max_bytes - total);
                if (c != first && (is_over || wire + more > max_wire))
                        break;
                total += c->len;
                wire += more;
        }
        *ret_end = c;
        return wire;
}

static void write_chunks(struct jsonw *w, const struct chunk *first, const struct chunk *end)
{
        jsonw_key(w, "chunks");
        jsonw_array(w);
        for (const struct chunk *c = first; c != end; c = c->next) {
                jsonw_object(w);
                jsonw_member_u64(w, "seq", c->seq);
                jsonw_member_str(w, "stream", stream_name(c->stream));
                jsonw_key(w, "chunk");
                jsonw_base64(w, chunk_slice(c));
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
}

static void write_gap(struct jsonw *w, const struct output *o, uint64_t after_seq)
{
        struct output_gap gap;
        if (!output_gap_after(o, after_seq, &gap))
                return;
        jsonw_key(w, "gap");
        jsonw_object(w);
        jsonw_member_u64(w, "fromSeq", gap.from_seq);
        jsonw_member_u64(w, "toSeq", gap.to_seq);
        jsonw_member_u64(w, "bytes", gap.bytes);
        jsonw_object_end(w);
}

static void answer(struct conn *c, const struct rpc_id *id, const struct task *t,
                   const struct process_read *ask)
{
        const struct process *p = t->process;
        const struct chunk *first = output_after(&p->output, ask->after_seq), *end;
        size_t size = choose(first, ask, c->out.max_message - ANSWER_WIRE_BYTES, &end);
        uint64_t next_seq = p->next_seq;
        if (first && (ask->has_max_bytes || end)) /* cut: go on behind what was given */
                next_seq = end ? end->prev->seq + 1 : p->output.last->seq + 1;

        struct jsonw w;
        conn_reply_begin(c, id, size + 192 + EXIT_RECORD_BYTES, &w);
        jsonw_object(&w);
        write_chunks(&w, first, end);
        jsonw_member_u64(&w, "nextSeq", next_seq);
        jsonw_member_bool(&w, "exited", process_has_exited(p));
        if (process_has_exited(p))
                jsonw_member_i64(&w, "exitCode", p->exit_code);
        else
                jsonw_member_null(&w, "exitCode");
        jsonw_member_bool(&w, "closed", p->state == PROC_CLOSED);
        jsonw_member_str(&w, "failure", p->has_failed ? TASK_FAILURE : NULL);
        jsonw_member_bool(&w, "sandboxDenied", t->is_denied);
        if (process_has_exited(p))
                exit_record_write(&w, t);
        write_gap(&w, &p->output, ask->after_seq);
        jsonw_object_end(&w);
        conn_reply_end(c, id, &w);
}

static void reader_forget(struct parked *parked)
{
        struct reader *r = container_of(parked, struct reader, parked);
        list_remove(&r->link);
        timer_free(r->timer);
        free(r);
}

static void reader_answer(struct reader *r)
{
        answer(r->parked.conn, &r->parked.id, r->task, &r->ask);
        parked_done(&r->parked);
}

static void on_deadline(void *arg)
{
        struct reader *r = arg;
        /* Else it is answered as soon as the start is decided, or its connection takes answers again. */
        if (r->task->process->state != PROC_STARTING && conn_wants_output(r->parked.conn))
                reader_answer(r);
}

int task_read(struct task *t, struct req *req, const struct process_read *in, struct err *err)
{
        if (has_news(t->process, in) || (in->wait_ms == 0 && t->process->state != PROC_STARTING)) {
                answer(req->conn, req->id, t, in);
                return 0;
        }
        struct reader *r = mem_new(struct reader);
        int e = parked_init(&r->parked, req, sizeof(*r), reader_forget, err);
        if (e < 0) {
                free(r);
                return e;
        }
        r->task = t;
        r->ask = *in;
        r->ask.process_id = S("");
        list_append(&t->readers, &r->link);
        r->timer = timer_new(&req->server->loop, on_deadline, r);
        timer_start(r->timer, in->wait_ms);
        r->deadline_ms = clock_mono_ms() + in->wait_ms;
        return 0;
}

void task_readers_wake(struct task *t)
{
        struct reader *r;
        list_each (r, &t->readers, link) {
                bool is_over = clock_mono_ms() >= r->deadline_ms && t->process->state != PROC_STARTING;
                if (!conn_wants_output(r->parked.conn))
                        return; /* woken again when its queue has drained */
                if (has_news(t->process, &r->ask) || is_over)
                        reader_answer(r);
        }
}

void task_readers_fail(struct task *t)
{
        struct err err = ERR_INIT;
        err_set(&err, RPC_INVALID_REQUEST, -ESRCH, "unknown process id %.*s", SLICE(task_id(t)));
        struct reader *r;
        while ((r = list_first(&t->readers, struct reader, link)))
                parked_fail(&r->parked, &err);
}

/* task_wait: answers process/read and process/wait (docs/PROTOCOL.md): at once, when the process has done what the request waits
 * for, or when the time of the request is over. */
#include "base/base64.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "proto/control.h"
#include "proto/process.h"
#include "session/task_internal.h"

/* A request that waits for a process. The first member of struct reader and of struct waiter. */
struct waiting {
        struct parked parked;
        struct list link;       /* task::readers or task::waits */
        struct list reads_link; /* client::reads, when it is a reader */
        struct task *task;
        struct timer *timer;
        uint64_t deadline_ms;
        bool is_guest; /* the request comes from a client of another session, and counts in task::guests */
};

static void waiting_forget(struct parked *parked)
{
        struct waiting *w = container_of(parked, struct waiting, parked);
        if (w->is_guest)
                w->task->guests--;
        list_remove(&w->link);
        list_remove(&w->reads_link);
        timer_free(w->timer);
        free(w);
}

/* Parks the request. Takes the struct of `size` bytes whose first member is `w`. */
static int waiting_begin(struct waiting *w, size_t size, struct list *list, struct task *t, struct req *req,
                         uint64_t wait_ms, void (*on_deadline)(void *arg), struct err *err)
{
        w->is_guest = req->client->session != t->session;
        int e = w->is_guest && t->guests >= LIMIT_GUEST_REQUESTS
                        ? req_limit(err, "waiting requests of other sessions on a process",
                                    LIMIT_GUEST_REQUESTS)
                        : parked_init(&w->parked, req, size, waiting_forget, err);
        if (e < 0) {
                free(w);
                return e;
        }
        t->guests += w->is_guest;
        list_init(&w->reads_link);
        w->task = t;
        w->deadline_ms = clock_mono_ms() + wait_ms;
        w->timer = timer_new(&req->server->loop, on_deadline, w);
        timer_start(w->timer, wait_ms);
        list_append(list, &w->link);
        return 0;
}

static void fail_all(struct list *list, const struct err *err)
{
        struct waiting *w;
        while ((w = list_first(list, struct waiting, link)))
                parked_fail(&w->parked, err);
}

void task_waiting_fail(struct task *t)
{
        struct err err = ERR_INIT;
        (void)task_unknown(task_id(t), &err);
        fail_all(&t->readers, &err);
        fail_all(&t->waits, &err);
}

/* --- process/read ------------------------------------------------------------------------------------------------- */

struct reader {
        struct waiting waiting;
        struct process_read ask; /* without the ids, whose memory is not kept */
};

/* Returns whether a reader can be answered without waiting. */
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

#define CHUNK_WIRE_BYTES 64        /* JSON around the base64 text of a chunk */
#define ANSWER_OVERHEAD_BYTES 4096 /* more than an answer without chunks needs */

/* Chooses the chunks of an answer: always `first`, and more chunks up to maxBytes and the size of a message. *ret_end is the chunk
 * behind the last chosen one. Returns the approximate size of the chosen chunks on the wire. */
static size_t choose_chunks(const struct chunk *first, const struct process_read *ask, size_t max_wire,
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

static void read_answer(struct client *c, const struct rpc_id *id, const struct task *t,
                        const struct process_read *ask)
{
        const struct process *p = t->process;
        const struct chunk *first = output_after(&p->output, ask->after_seq), *end;
        size_t size = choose_chunks(first, ask, c->conn->out.max_message - ANSWER_OVERHEAD_BYTES, &end);
        uint64_t next_seq = p->next_seq;
        if (first && (ask->has_max_bytes || end)) /* the next read goes on behind the last chunk */
                next_seq = end ? end->prev->seq + 1 : p->output.last->seq + 1;

        struct jsonw w;
        conn_reply_begin(c->conn, id, size + 192 + TASK_EXIT_BYTES, &w);
        write_chunks(&w, first, end);
        jsonw_member_u64(&w, "nextSeq", next_seq);
        jsonw_member_bool(&w, "exited", process_has_exited(p));
        task_exit_code_write(&w, t);
        jsonw_member_bool(&w, "closed", p->state == PROC_CLOSED);
        jsonw_member_str(&w, "failure", task_failure(t));
        jsonw_member_bool(&w, "sandboxDenied", t->is_denied);
        if (process_has_exited(p))
                task_exit_write(&w, t);
        write_gap(&w, &p->output, ask->after_seq);
        conn_reply_end(c->conn, id, &w);
}

static void reader_answer(struct reader *r)
{
        struct parked *parked = &r->waiting.parked;
        read_answer(parked->client, &parked->id, r->waiting.task, &r->ask);
        parked_done(parked);
}

static void on_read_deadline(void *arg)
{
        struct reader *r = arg;
        /* Otherwise the reader is answered as soon as the start has succeeded or failed, or its connection takes answers again. */
        if (r->waiting.task->process->state != PROC_STARTING &&
            conn_wants_output(r->waiting.parked.client->conn))
                reader_answer(r);
}

int task_read(struct task *t, struct req *req, const struct process_read *in, struct err *err)
{
        if (has_news(t->process, in) || (in->wait_ms == 0 && t->process->state != PROC_STARTING)) {
                read_answer(req->client, req->id, t, in);
                return 0;
        }
        struct reader *r = mem_new(struct reader);
        r->ask = *in;
        r->ask.process_id = r->ask.session_id = S("");
        int e = waiting_begin(&r->waiting, sizeof(*r), &t->readers, t, req, in->wait_ms, on_read_deadline,
                              err);
        if (e == 0)
                list_append(&req->client->reads, &r->waiting.reads_link);
        return e;
}

/* Answers the reader if there is something to tell, unless its connection takes no answers: then task_reads_on_room does. */
static void reader_wake(struct reader *r)
{
        const struct process *p = r->waiting.task->process;
        bool is_over = clock_mono_ms() >= r->waiting.deadline_ms && p->state != PROC_STARTING;
        if (conn_wants_output(r->waiting.parked.client->conn) && (has_news(p, &r->ask) || is_over))
                reader_answer(r);
}

void task_readers_wake(struct task *t)
{
        struct reader *r;
        list_each (r, &t->readers, waiting.link)
                reader_wake(r);
}

bool task_has_own_readers(const struct task *t)
{
        const struct reader *r;
        list_each (r, &t->readers, waiting.link)
                if (!r->waiting.is_guest)
                        return true;
        return false;
}

void task_reads_on_room(struct client *c)
{
        struct reader *r;
        list_each (r, &c->reads, waiting.reads_link)
                reader_wake(r);
}

/* --- process/wait ------------------------------------------------------------------------------------------------- */

struct waiter {
        struct waiting waiting;
        struct process_wait ask; /* without the ids, whose memory is not kept */
        bool is_draining;        /* the exit was seen; the timer now counts drainMs */
};

static bool is_done(const struct process *p, const struct process_wait *ask)
{
        return p->state == PROC_CLOSED || (ask->waits_for_exit && process_has_exited(p));
}

static void write_wait_answer(struct client *c, const struct rpc_id *id, const struct task *t, bool timed_out)
{
        const struct process *p = t->process;
        struct jsonw w;
        conn_reply_begin(c->conn, id, 128 + TASK_EXIT_BYTES, &w);
        jsonw_member_bool(&w, "exited", process_has_exited(p));
        task_exit_code_write(&w, t);
        jsonw_member_bool(&w, "closed", p->state == PROC_CLOSED);
        jsonw_member_u64(&w, "nextSeq", p->next_seq);
        jsonw_member_bool(&w, "sandboxDenied", t->is_denied);
        jsonw_member_bool(&w, "timedOut", timed_out);
        if (process_has_exited(p))
                task_exit_write(&w, t);
        conn_reply_end(c->conn, id, &w);
}

static void waiter_answer(struct waiter *w)
{
        struct parked *parked = &w->waiting.parked;
        const struct task *t = w->waiting.task;
        write_wait_answer(parked->client, &parked->id, t, !is_done(t->process, &w->ask));
        parked_done(parked);
}

static void on_wait_deadline(void *arg)
{
        struct waiter *w = arg;
        if (w->waiting.task->process->state != PROC_STARTING)
                waiter_answer(w);
        else
                w->waiting.deadline_ms = 0; /* 0: answer as soon as the start has succeeded or failed */
}

/* Starts the timer of a request with drainMs, which waits for the close no longer than drainMs after the exit. */
static void begin_draining(struct waiter *w)
{
        const struct process *p = w->waiting.task->process;
        uint64_t now_ms = clock_mono_ms();
        if (w->is_draining || !w->ask.has_drain_ms || !process_has_exited(p))
                return;
        w->is_draining = true;
        uint64_t until_ms = MIN(p->exited_mono_ms + w->ask.drain_ms, w->waiting.deadline_ms);
        timer_start(w->waiting.timer, MAX(until_ms, now_ms) - now_ms);
}

int task_wait(struct task *t, struct req *req, const struct process_wait *in, struct err *err)
{
        bool is_over = in->wait_ms == 0 && t->process->state != PROC_STARTING;
        if (is_done(t->process, in) || is_over) {
                write_wait_answer(req->client, req->id, t, !is_done(t->process, in));
                return 0;
        }
        struct waiter *w = mem_new(struct waiter);
        w->ask = *in;
        w->ask.process_id = w->ask.session_id = S("");
        int e = waiting_begin(&w->waiting, sizeof(*w), &t->waits, t, req, in->wait_ms, on_wait_deadline, err);
        if (e == 0)
                begin_draining(w);
        return e;
}

void task_waits_wake(struct task *t)
{
        struct waiter *w;
        list_each (w, &t->waits, waiting.link) {
                if (is_done(t->process, &w->ask) || w->waiting.deadline_ms == 0)
                        waiter_answer(w);
                else
                        begin_draining(w);
        }
}

/* recover: asks the server for events of a process that this client has not got: after a lost connection, when an event between
 * others is missing, and from before the process was adopted. */
#include "client/client.h"

#include "base/mem.h"
#include "client/error.h"
#include "client/member.h"

#include <errno.h>

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
        /* The request is not repeated by itself, because after a lost connection every process is asked for anew. */
        int r = call_end(p->client, call, &w, 0, on_read, p, ret_error);
        p->is_reading = r == 0;
        return r;
}

/* Asks for missed events where no caller can get an error: if the request cannot be made, the process fails. */
static void read_missed(struct farhand_process *p)
{
        struct farhand_error error;
        if (client_process_read_missed(p, &error) < 0)
                client_process_fail(p, &error);
}

/* Returns when the server is to be asked for the missing events of the process; UINT64_MAX: not at all. */
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

/* Adds the events of an answer to process/read to those that are known. Returns 0, or -errno with *err filled. */
static int merge(struct farhand_process *p, const struct rpc_message *m, struct sequence_state *state,
                 struct err *err)
{
        const struct json *chunks = json_get(&m->doc, m->result, S("chunks"));
        if (!chunks || chunks->type != JSON_ARRAY ||
            !member_u64(&m->doc, m->result, S("nextSeq"), &state->next_seq))
                return err_set(err, 0, -EPROTO, "the server's answer to process/read cannot be read");
        state->has_exited = member_is_true(&m->doc, m->result, S("exited"));
        state->is_closed = member_is_true(&m->doc, m->result, S("closed"));
        state->may_lose = p->events.on_gap || p->kept;
        (void)member_u64(&m->doc, json_get(&m->doc, m->result, S("gap")), S("bytes"), &state->lost_bytes);
        client_exit_read(&m->doc, m->result, &state->exit);
        p->sequence.is_filling = true;
        int r = 0;
        uint64_t before = 0; /* chunks must be in order: to sort thousands of them would take very long */
        json_each (chunk, &m->doc, chunks) {
                struct event event;
                bool is_good = client_output_read(&m->doc, chunk, &event);
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
        return r < 0 ? r : sequence_fill(&p->sequence, state, err);
}

/* Tells the exit of an adopted process when that lies before the events that were asked for, and so is not among them. */
static void tell_past_exit(struct farhand_process *p, const struct sequence_state *state)
{
        if (!state->has_exited || p->sequence.has_exited)
                return;
        p->sequence.has_exited = true;
        client_process_tell(p, &(struct event){ .kind = EVENT_EXITED, .exit = state->exit });
}

static void tell_past_close(struct farhand_process *p, const struct sequence_state *state)
{
        if (p->state == PROCESS_RUNNING && state->is_closed && state->next_seq <= p->sequence.last + 1)
                client_process_tell(p, &(struct event){ .kind = EVENT_CLOSED });
}

static void on_read(struct farhand *f, void *arg, const struct rpc_message *m,
                    const struct farhand_error *error)
{
        struct farhand_process *p = arg;
        struct err err = ERR_INIT;
        struct farhand_error failure;
        struct sequence_state state = { 0 };
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
        if (merge(p, m, &state, &err) < 0) {
                error_set(&failure, err.code, "failed to recover process %s: %s", p->id, err.text);
                if (f->state == FARHAND_READY && !p->is_adopted)
                        (void)farhand_process_terminate(p);
                client_process_fail(p, &failure);
                return;
        }
        bool was_adopting = p->is_adopting;
        p->is_adopting = false;
        if (was_adopting)
                tell_past_exit(p, &state);
        client_process_tell_all(p);
        if (was_adopting)
                tell_past_close(p, &state);
        if (p->state == PROCESS_RUNNING && p->sequence.last < p->dropped_seq)
                read_missed(p);
        p->dropped_seq = 0;
}

/* start: the public functions that start a process, adopt it, and write to it. */
#include "client/client.h"

#include "base/mem.h"
#include "base/random.h"
#include "client/error.h"

#include <errno.h>
#include <inttypes.h>

/* How many writes of a process may wait for the server's answers, and the longest write. on_writable tells a program that wanted to
 * write more when there is room. */
#define WRITES_MAX 16
#define WRITE_BYTES_MAX ((size_t)64 * 1024)

/* The longest answer to a start that is kept for the program. That of Farhand has a few hundred bytes. */
#define START_ANSWER_MAX ((size_t)64 * 1024)

static struct farhand_process *process_new(struct farhand *f, const char *id, uint64_t after_seq,
                                           const struct farhand_process_events *events, void *arg)
{
        struct farhand_process *p = mem_new(struct farhand_process);
        p->client = f;
        p->id = id ? mem_strdup(id) : mem_printf("farhand-%" PRIu64, f->next_process++);
        p->events = events ? *events : (struct farhand_process_events){ 0 };
        p->arg = arg;
        p->next_write = 1;
        random_bytes(&p->write_prefix, sizeof(p->write_prefix));
        p->exit.code = -1; /* -1 until the server tells the exit code */
        sequence_init(&p->sequence, after_seq);
        list_append(&f->processes, &p->link);
        return p;
}

void farhand_process_free(struct farhand_process *p)
{
        if (p)
                client_process_release(p);
}

const char *farhand_process_id(const struct farhand_process *p)
{
        return p->id;
}

/* ---- starting ---- */

static void on_start_answer(struct farhand *f, void *arg, const struct rpc_message *m,
                            const struct farhand_error *error)
{
        struct farhand_process *p = arg;
        if (p->state != PROCESS_STARTING)
                return; /* an earlier event has ended the process already */
        if (error && error->code == -ECONNRESET && f->state == FARHAND_RECOVERING) {
                p->is_start_unknown = true; /* process/read will tell when the connection is back */
                return;
        }
        if (error) {
                client_process_fail(p, error);
                return;
        }
        int64_t pid = -1;
        struct slice answer = json_raw(&m->doc, m->result);
        if (m->result->type == JSON_OBJECT && answer.n <= START_ANSWER_MAX)
                p->start_answer = slice_dup(answer);
        const struct json *value = json_get(&m->doc, m->result, S("pid"));
        if (!value || json_i64(&m->doc, value, &pid) < 0)
                pid = -1;
        client_process_on_started(p, pid);
}

struct farhand_process *farhand_start(struct farhand *f, const struct farhand_command *given,
                                      const struct farhand_process_events *events, void *arg,
                                      struct farhand_error *ret_error)
{
        struct farhand_command command = { 0 };
        memcpy(&command, given, MIN(given->size, sizeof(command)));
        if (f->state == FARHAND_CONNECTING) {
                error_set(ret_error, -ENOTCONN, "the client is not connected yet");
                return NULL;
        }
        if (client_command_check(f, &command, ret_error) < 0)
                return NULL;
        if (command.sandbox && sandbox_check_begin(f, ret_error) < 0)
                return NULL;
        struct jsonw w;
        struct call *call = call_begin(f, "process/start", &w, ret_error);
        if (!call)
                return NULL;
        struct farhand_process *p = process_new(f, command.process_id, 0, events, arg);
        p->is_tty = command.tty;
        p->is_stdin_closed = !command.tty && !command.stdin_open;
        p->network_timeout_ms = client_network_timeout_ms(command.network);
        client_command_write(f, &w, p->id, &command);
        unsigned flags = command.sandbox ? CALL_NEEDS_SANDBOX : 0;
        if (call_end(f, call, &w, flags, on_start_answer, p, ret_error) == 0)
                return p;
        client_process_release(p);
        return NULL;
}

struct farhand_process *farhand_adopt(struct farhand *f, const char *process_id, uint64_t after_seq,
                                      const struct farhand_process_events *events, void *arg,
                                      struct farhand_error *ret_error)
{
        if (f->state == FARHAND_CONNECTING || f->state == FARHAND_FAILED) {
                error_set(ret_error, -ENOTCONN, "the client is not connected");
                return NULL;
        }
        struct farhand_process *p = process_new(f, process_id, after_seq, events, arg);
        /* It is unknown whether there is a terminal: the server refuses what cannot be written. */
        p->is_tty = true;
        p->state = PROCESS_RUNNING;
        p->is_adopted = p->is_adopting = true;
        if (client_process_read_missed(p, ret_error) == 0)
                return p;
        client_process_release(p);
        return NULL;
}

/* ---- writing ---- */

static void on_written(struct farhand *f, void *arg, const struct rpc_message *m,
                       const struct farhand_error *error)
{
        struct farhand_process *p = arg;
        const struct json *status = m ? json_get(&m->doc, m->result, S("status")) : NULL;
        p->writes_waiting--;
        if (error && error->code == -ECONNRESET && f->state == FARHAND_RECOVERING) {
                /* The write must not be repeated: the server may have done it already. */
                client_process_fail(p, error);
                return;
        }
        if (error ||
            (status && status->type == JSON_STRING && !slice_eq(json_raw(&m->doc, status), S("accepted"))))
                p->is_stdin_closed = true;
        if (p->wants_room && p->writes_waiting <= WRITES_MAX / 2)
                client_process_tell_writable(p);
}

/* Sends one write of at most WRITE_BYTES_MAX bytes. */
static int write_piece(struct farhand_process *p, struct slice piece, struct farhand_error *ret_error)
{
        struct jsonw w;
        char number[40];
        struct call *call = call_begin(p->client, "process/write", &w, ret_error);
        if (!call)
                return p->client->state == FARHAND_FAILED ? p->client->failure.code : -EAGAIN;
        (void)snprintf(number, sizeof(number), "%08" PRIx32 ".%" PRIu64, p->write_prefix, p->next_write);
        jsonw_object(&w);
        jsonw_member_str(&w, "processId", p->id);
        jsonw_key(&w, "chunk");
        jsonw_base64(&w, piece);
        jsonw_member_str(&w, "writeId", number);
        jsonw_object_end(&w);
        int r = call_end(p->client, call, &w, p->client->can_repeat_writes ? FARHAND_REPEAT : 0, on_written,
                         p, ret_error);
        if (r < 0)
                return r;
        p->next_write++;
        p->writes_waiting++;
        return 0;
}

int64_t farhand_process_write(struct farhand_process *p, const void *bytes, size_t n,
                              struct farhand_error *ret_error)
{
        if (p->state == PROCESS_OVER || p->is_stdin_closed)
                return error_set(ret_error, -EPIPE, "the stdin of process %s is closed", p->id);
        size_t taken = 0;
        while (taken < n && p->state == PROCESS_RUNNING && p->writes_waiting < WRITES_MAX) {
                struct slice piece = slice_from((const char *)bytes + taken, MIN(n - taken, WRITE_BYTES_MAX));
                int r = write_piece(p, piece, ret_error);
                if (r == -EAGAIN) {
                        p->client->is_starved = true;
                        break;
                }
                if (r < 0)
                        return r;
                taken += piece.n;
        }
        p->wants_room |= taken < n;
        return (int64_t)taken;
}

/* Calls on_writable of processes that could write nothing because other calls took all the room. Such a process waits for no answer
 * to a write of its own, after which on_writable is called usually. */
void client_processes_feed(struct farhand *f)
{
        struct farhand_process *p;
        if (!f->is_starved || f->call_count > CALLS_MAX / 2 ||
            farhand_queued_bytes(f) > TRANSPORT_OUT_MAX / 2)
                return;
        f->is_starved = false;
        list_each (p, &f->processes, link)
                if (p->wants_room && p->writes_waiting <= WRITES_MAX / 2)
                        client_process_tell_writable(p);
}

const char *farhand_process_start_answer(const struct farhand_process *p)
{
        return p->start_answer;
}

uint64_t farhand_process_last_seq(const struct farhand_process *p)
{
        return p->sequence.last;
}

bool farhand_process_has_exited(const struct farhand_process *p, struct farhand_exit *ret_exit)
{
        if (p->has_exited && ret_exit)
                *ret_exit = p->exit;
        return p->has_exited;
}

bool farhand_process_is_closed(const struct farhand_process *p)
{
        return p->state == PROCESS_OVER;
}

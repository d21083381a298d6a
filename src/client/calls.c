/* calls: the requests that wait for their answers.
 *
 * The id of a request says its slot in farhand::calls: the id modulo the number of slots. A request that may be sent again keeps
 * its text until it is answered; other requests lose their text as soon as they are sent.
 */
#include "client/client.h"

#include "base/mem.h"
#include "client/error.h"

#include <errno.h>
#include <inttypes.h>

static void release(struct farhand *f, struct call *call)
{
        buf_release(&call->text);
        f->held_bytes -= call->held;
        *call = (struct call){ 0 };
        f->call_count--;
}

struct call *call_begin(struct farhand *f, const char *method, struct jsonw *w,
                        struct farhand_error *ret_error)
{
        if (f->state == FARHAND_FAILED) {
                error_copy(ret_error, &f->failure);
                return NULL;
        }
        if (f->call_count >= CALLS_MAX) {
                error_set(ret_error, -EAGAIN, "%d calls wait for their answers already", CALLS_MAX);
                return NULL;
        }
        while (f->calls[f->next_id % CALLS_MAX].id != 0)
                f->next_id++;
        struct call *call = &f->calls[f->next_id % CALLS_MAX];
        *call = (struct call){ .id = f->next_id++, .text = BUF_INIT(REQUEST_MAX) };
        f->call_count++;
        jsonw_begin(w, &call->text);
        jsonw_object(w);
        jsonw_member_u64(w, "id", call->id);
        jsonw_member_str(w, "method", method);
        jsonw_key(w, "params");
        return call;
}

static void send_call(struct farhand *f, struct call *call)
{
        transport_send(&f->transport, buf_slice(&call->text));
        call->is_sent = true;
        if (call->flags & FARHAND_REPEAT)
                return;
        buf_release(&call->text);
        f->held_bytes -= call->held;
        call->held = 0;
}

int call_end(struct farhand *f, struct call *call, struct jsonw *w, unsigned flags, call_done done, void *arg,
             struct farhand_error *ret_error)
{
        jsonw_object_end(w);
        if (jsonw_end(w) < 0) {
                release(f, call);
                return error_set(ret_error, -EMSGSIZE, "a request has at most %zu bytes", REQUEST_MAX);
        }
        /* After a lost connection all requests that are kept are queued again, so together they must fit into the queue. */
        if (call->text.n + f->held_bytes + transport_queued(&f->transport) > TRANSPORT_OUT_MAX) {
                release(f, call);
                return error_set(ret_error, -EAGAIN, "more than %zu bytes wait to be sent",
                                 TRANSPORT_OUT_MAX);
        }
        call->held = call->text.n;
        f->held_bytes += call->held;
        /* A line end in JSON is a blank between values; on a connection whose messages are lines it would end the message. */
        for (char *p = call->text.p; (p = memchr(p, '\n', (size_t)(call->text.p + call->text.n - p)));)
                *p = ' ';
        call->flags = flags;
        call->done = done;
        call->arg = arg;
        if (f->state == FARHAND_READY && sandbox_check_allows(f, flags))
                send_call(f, call);
        return 0;
}

void calls_forget(struct farhand *f, any_function on, const void *arg)
{
        for (size_t i = 0; i < CALLS_MAX; i++) {
                struct call *call = &f->calls[i];
                any_function its = call->tell ? call->on_typed : (any_function)call->on_answer;
                if (call->id == 0 || call->arg != arg || its != on)
                        continue;
                /* The slot of a request that was sent is freed, because an answer without a call is ignored. Only a request that
                 * the library itself made for a process, such as its end, is kept, to be repeated if the connection is lost. */
                if (call->is_sent && (on || !(call->flags & FARHAND_REPEAT)))
                        release(f, call);
                else
                        call->is_forgotten = true;
        }
}

/* Returns the result of an answer as JSON text, which the caller frees. */
static char *result_text(const struct rpc_message *m)
{
        struct slice raw = json_raw(&m->doc, m->result);
        return m->result->type == JSON_STRING ? mem_printf("\"%.*s\"", SLICE(raw)) : slice_dup(raw);
}

/* Ends a call, and calls its callback. The slot is freed before the callback, because the callback may make the next call. */
static void finish(struct farhand *f, struct call *call, const struct rpc_message *m,
                   const struct farhand_error *error)
{
        struct call was = *call;
        call->text = BUF_INIT(0);
        release(f, call);
        if (!was.is_forgotten && was.done)
                was.done(f, was.arg, m, error);
        if (!was.is_forgotten && was.tell)
                was.tell(f, &was, m, error);
        if (!was.is_forgotten && was.on_answer) {
                _free_ char *result = m ? result_text(m) : NULL;
                was.on_answer(f, was.arg, result, error);
        }
        buf_release(&was.text);
}

void calls_on_answer(struct farhand *f, const struct rpc_message *m)
{
        if (m->id.is_string || m->id.number <= 0)
                return; /* the ids of our requests are numbers from 1 on, so this message answers none of them */
        struct call *call = &f->calls[(uint64_t)m->id.number % CALLS_MAX];
        if (call->id != (uint64_t)m->id.number || !call->is_sent)
                return;
        if (m->kind == RPC_RESPONSE) {
                finish(f, call, m, NULL);
                return;
        }
        struct farhand_error error;
        error_from_message(&error, m);
        finish(f, call, NULL, &error);
}

void calls_send_waiting(struct farhand *f)
{
        /* The calls are sent in the order of their ids, which is the order in which they were made. */
        uint64_t sent_up_to = 0;
        for (;;) {
                struct call *next = NULL;
                for (size_t i = 0; i < CALLS_MAX; i++) {
                        struct call *call = &f->calls[i];
                        if (call->id > sent_up_to && !call->is_sent && (!next || call->id < next->id) &&
                            sandbox_check_allows(f, call->flags))
                                next = call;
                }
                if (!next)
                        return;
                sent_up_to = next->id;
                send_call(f, next);
        }
}

void calls_on_lost(struct farhand *f, const char *why)
{
        struct farhand_error error;
        error_set(&error, -ECONNRESET, "%s; whether the server has done what was asked is not known", why);
        for (size_t i = 0; i < CALLS_MAX; i++) {
                struct call *call = &f->calls[i];
                if (call->id == 0 || !call->is_sent)
                        continue;
                if (call->flags & FARHAND_REPEAT)
                        call->is_sent = false;
                else
                        finish(f, call, NULL, &error);
        }
}

void calls_fail_all(struct farhand *f, const struct farhand_error *error)
{
        for (size_t i = 0; i < CALLS_MAX; i++)
                if (f->calls[i].id != 0)
                        finish(f, &f->calls[i], NULL, error);
}

void calls_fail_flagged(struct farhand *f, unsigned flag, const struct farhand_error *error)
{
        for (size_t i = 0; i < CALLS_MAX; i++)
                if (f->calls[i].id != 0 && (f->calls[i].flags & flag) && !f->calls[i].is_sent)
                        finish(f, &f->calls[i], NULL, error);
}

void calls_release(struct farhand *f)
{
        for (size_t i = 0; i < CALLS_MAX; i++)
                if (f->calls[i].id != 0)
                        release(f, &f->calls[i]);
}

/* ---- any method ---- */

int farhand_call(struct farhand *f, const char *method, const char *params, unsigned flags,
                 farhand_on_answer on_answer, void *arg, struct farhand_error *ret_error)
{
        if (f->state == FARHAND_CONNECTING)
                return error_set(ret_error, -ENOTCONN, "the client is not connected yet");
        struct jsonw w;
        struct call *call = call_begin(f, method, &w, ret_error);
        if (!call)
                return f->state == FARHAND_FAILED ? f->failure.code : -EAGAIN;
        jsonw_raw(&w, params ? slice_from_str(params) : S("{}"));
        call->on_answer = on_answer;
        return call_end(f, call, &w, flags, NULL, arg, ret_error);
}

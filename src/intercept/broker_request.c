/* broker_request: what becomes of the start of a program: it goes on, is denied, fails, or waits for an answer or for a place outside. */
#include "intercept/broker_internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "intercept/finish.h"
#include "intercept/tell.h"
#include "intercept/wrapped.h"
#include "keeper/keeper_shared.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define EXIT_DENIED 1

struct request *request_new(void)
{
        struct request *r = mem_new(struct request);
        list_init(&r->link);
        r->caller = CALLER_INIT;
        r->pidfd = -1;
        r->outside = ESCALATED_NONE;
        return r;
}

struct request *request_free(struct request *r)
{
        if (!r)
                return NULL;
        list_remove(&r->link);
        caller_release(&r->caller);
        fd_close(r->pidfd);
        free(r->reason);
        free(r);
        return NULL;
}

struct intercept_exec request_exec(const struct request *r)
{
        const struct caller *c = &r->caller;
        return (struct intercept_exec){ .file = buf_slice(&c->file),
                                        .cwd = c->cwd.n > 0 ? buf_slice(&c->cwd) : S("/"),
                                        .argv = c->argv,
                                        .argc = c->argc };
}

static void request_keep(struct broker *b, struct request *r, enum request_state state)
{
        r->state = state;
        if (!list_is_linked(&r->link))
                list_append(&b->requests, &r->link);
}

void request_wait(struct broker *b, struct request *r, enum request_state state)
{
        if (r->state == REQUEST_ASKED && list_is_linked(&r->link))
                b->questions--;
        b->open_bytes -= r->held;
        r->held = 0;
        request_keep(b, r, state);
}

void request_end(struct broker *b, struct request *r)
{
        request_wait(b, r, REQUEST_OVER);
        if (r->caller.wrapped)
                stream_end(b, r);
}

void request_run(struct broker *b, struct request *r, bool must_watch)
{
        if (r->caller.wrapped) { /* the wrapper executes the program itself */
                broker_count(&b->start.keeper->run);
                (void)wrapped_answer(r->caller.wrapped, ESCALATE_RUN, slice_from(NULL, 0));
                return request_end(b, r);
        }
        int e = caller_read_status(&r->caller);
        if (e < 0) {
                (void)caller_fail(&r->caller, -EACCES);
                return request_end(b, r);
        }
        if (!must_watch && !caller_is_shared(&r->caller)) {
                broker_count(&b->start.keeper->run);
                if ((e = caller_continue(&r->caller)) < 0 && e != -ENOENT)
                        (void)caller_fail(&r->caller, -EACCES);
                return request_end(b, r);
        }
        request_end(b, r);
        if (watch_exec_begin(&r->watch, &r->caller) < 0) {
                broker_count(&b->start.keeper->denied);
                return;
        }
        broker_count(&b->start.keeper->run);
        r->begun_us = clock_mono_us();
        b->watched++;
        request_keep(b, r, REQUEST_WATCHED);
}

int request_open(struct request *r)
{
        if (r->pidfd >= 0)
                return 0;
        int e = caller_read_status(&r->caller);
        if (e < 0)
                return e;
        r->pidfd = caller_open(&r->caller);
        return r->pidfd < 0 ? r->pidfd : 0;
}

/* Denies the request of a wrapper. The wrapper itself prints the reason, unless it was told before that its program would run outside. */
static void wrapped_deny(struct wrapped *w, struct slice reason, struct slice text)
{
        if (!w->is_escalated) {
                (void)wrapped_answer(w, ESCALATE_DENY, reason);
                return;
        }
        tell_process(w->pidfd, STDERR_FILENO, text);
        (void)wrapped_result(w, EXIT_DENIED << 8);
}

void request_deny(struct broker *b, struct request *r, struct slice reason)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_INTERCEPT_REASON_BYTES + 64);
        broker_count(&b->start.keeper->denied);
        if (request_open(r) < 0)
                return request_fail(b, r, -EACCES);
        reason.n = MIN(reason.n, (size_t)LIMIT_INTERCEPT_REASON_BYTES);
        if (buf_append(&text, S("Execution denied")) < 0 ||
            (reason.p && (buf_append(&text, S(": ")) < 0 || buf_append(&text, reason) < 0)) ||
            buf_append_char(&text, '\n') < 0)
                buf_truncate(&text, 0); /* cannot be: there is room */
        if (r->caller.wrapped) {
                wrapped_deny(r->caller.wrapped, reason, buf_slice(&text));
                return request_end(b, r);
        }
        tell_process(r->pidfd, STDERR_FILENO, buf_slice(&text));
        (void)finish_with_code(&r->caller,
                               EXIT_DENIED); /* if this fails the caller's execve has failed, too */
        request_end(b, r);
}

/* ---- wrappers ---- */

void request_want_descriptors(struct request *r)
{
        r->begun_us = clock_mono_us();
        if (wrapped_answer(r->caller.wrapped, ESCALATE_ESCALATE, slice_from(NULL, 0)) < 0)
                r->begun_us = 0; /* the wrapper has gone: the next look ends the request */
}

void request_fail(struct broker *b, struct request *r, int error)
{
        struct wrapped *w = r->caller.wrapped;
        if (w && !w->is_escalated) {
                r->failure = error;
                request_want_descriptors(r);
                return request_wait(b, r, REQUEST_GIVEN);
        }
        if (w)
                (void)wrapped_fail(w, buf_slice(&r->caller.file), error);
        else
                (void)caller_fail(&r->caller, error);
        request_end(b, r);
}

/* ---- decisions ---- */

static void request_act(struct broker *b, struct request *r, enum intercept_action action,
                        struct slice reason, bool must_watch)
{
        if (action == INTERCEPT_RUN)
                request_run(b, r, must_watch);
        else if (action == INTERCEPT_ESCALATE)
                request_escalate(b, r);
        else
                request_deny(b, r, reason);
}

void request_decided(struct broker *b, struct request *r, enum intercept_action action,
                     const struct exec_rule *rule, struct slice reason)
{
        server_tell(b, r, action, rule);
        if (!b->options.reports || b->out.n == 0)
                return request_act(b, r, action, reason, false);
        r->action = action;
        r->reason = reason.p ? slice_dup(reason) : NULL;
        request_keep(b, r, REQUEST_TOLD);
}

void requests_told(struct broker *b)
{
        struct request *r;
        list_each (r, &b->requests, link) {
                if (r->state != REQUEST_TOLD)
                        continue;
                _free_ char *reason = TAKE(r->reason);
                request_act(b, r, r->action, reason ? slice_from_str(reason) : slice_from(NULL, 0), true);
        }
}

/* ---- questions ---- */

static void request_withdraw(struct broker *b, struct request *r)
{
        const struct intercept_message m = { .kind = INTERCEPT_MSG_WITHDRAWN, .withdrawn = r->question };
        request_end(b, r);
        (void)server_queue(b, &m); /* there is room kept free for it; a server that has gone need not know */
}

void request_ask(struct broker *b, struct request *r, const struct intercept_verdict *verdict)
{
        struct remembered_answer known;
        int e = request_open(r);
        if (e == 0)
                e = caller_read_cwd(&r->caller);
        if (e < 0) {
                broker_count(&b->start.keeper->denied);
                return request_fail(b, r, -EACCES);
        }
        const struct intercept_exec exec = request_exec(r);
        if (remembered_find(&b->remembered, &exec, &known)) {
                return request_decided(b, r, known.action, verdict->rule, known.reason);
        }
        size_t bytes = r->caller.argv_text.allocated + r->caller.argv_room * sizeof(struct slice);
        const char *why = b->is_lost                                  ? "nobody can be asked"
                          : b->questions >= LIMIT_INTERCEPT_QUESTIONS ? "too many open questions"
                          : r->caller.argv_text.n > LIMIT_INTERCEPT_ARGV_BYTES
                                  ? "too many arguments to ask about"
                          : bytes > LIMIT_INTERCEPT_OPEN_BYTES - b->open_bytes ? "too many open questions"
                          : b->last_question == UINT32_MAX                     ? "too many questions"
                                                                               : NULL;
        if (why)
                return request_decided(b, r, INTERCEPT_DENY, verdict->rule, slice_from_str(why));
        r->question = ++b->last_question;
        r->held = bytes;
        b->open_bytes += bytes;
        b->questions++;
        request_keep(b, r, REQUEST_ASKED);
        struct intercept_message m = { .kind = INTERCEPT_MSG_ASK,
                                       .question = server_question(r, INTERCEPT_ASK, verdict->rule) };
        m.question.id = r->question;
        m.question.accepted = verdict->accepted;
        if (server_queue(b, &m) < 0 && r->state == REQUEST_ASKED)
                request_deny(b, r, S("nobody can be asked"));
}

static struct request *request_find(struct broker *b, uint32_t question)
{
        struct request *r;
        list_each (r, &b->requests, link)
                if (r->state == REQUEST_ASKED && r->question == question)
                        return r;
        return NULL;
}

/* Takes an answer of the server. Its question may be withdrawn already: the answer and that message can cross. */
void request_answer(struct broker *b, const struct intercept_answer *answer)
{
        struct request *r = request_find(b, answer->id);
        if (!r)
                return;
        const struct intercept_exec exec = request_exec(r);
        const struct remembered_answer known = { answer->action, answer->reason };
        if (answer->is_remembered)
                remembered_put(&b->remembered, &exec, &known);
        request_act(b, r, answer->action, answer->reason, true);
}

void requests_deny_asked(struct broker *b)
{
        struct request *r;
        list_each (r, &b->requests, link)
                if (r->state == REQUEST_ASKED)
                        request_deny(b, r, S("nobody can be asked"));
}

/* ---- events ---- */

static void caller_gone(struct broker *b, struct request *r)
{
        if (r->state == REQUEST_ASKED)
                request_withdraw(b, r);
        else if (r->state == REQUEST_OUTSIDE)
                outside_lose_caller(r);
}

void request_lose(struct broker *b, struct request *r)
{
        if (r->state == REQUEST_ASKED || r->state == REQUEST_OUTSIDE)
                caller_gone(b, r);
        else
                request_end(b, r);
}

static void watch_step(struct broker *b, struct request *r)
{
        if (watch_exec_step(&r->watch) == WATCH_WAITS)
                return;
        b->watched--;
        request_end(b, r);
}

void request_step(struct broker *b, struct request *r, const struct pollfd *caller,
                  const struct pollfd *report, const struct pollfd *outside)
{
        if (r->state == REQUEST_WATCHED)
                return watch_step(b, r);
        if (report->revents)
                outside_reported(b, r);
        if (outside->revents && (r->state == REQUEST_OUTSIDE || r->state == REQUEST_ENDING))
                return outside_ended(b, r);
        if (caller->revents && r->caller.wrapped)
                stream_step(b, r);
        else if (caller->revents)
                caller_gone(b, r);
        if (r->state == REQUEST_ENDING && clock_mono_us() >= r->deadline_us)
                escalated_signal(&r->outside, SIGKILL);
}

/* The pidfd of a caller tells of its process only. That a thread has died before its process shows in the notification. */
void requests_look(struct broker *b)
{
        struct request *r;
        list_each (r, &b->requests, link) {
                if (r->caller.wrapped)
                        stream_look(b, r);
                if (r->state != REQUEST_ASKED && r->state != REQUEST_OUTSIDE)
                        continue;
                if (!caller_is_there(&r->caller))
                        caller_gone(b, r);
                else if (r->state == REQUEST_OUTSIDE && caller_read_status(&r->caller) == 0)
                        outside_pass_signals_on(r);
        }
}

/* task_intercept: reads the frames of the broker, keeps the open questions, and hands on what clients decide. */

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/server.h"
#include "proto/intercept.h"
#include "session/exec_question.h"
#include "session/first_program.h"
#include "session/task_internal.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* Every open question may have one answer that is not written yet. */
#define OUT_BYTES ((size_t)LIMIT_INTERCEPT_QUESTIONS * (LIMIT_INTERCEPT_REASON_BYTES + 64))
#define TOO_LONG "the question is too long for the client"
#define OVER "nobody can decide any more"
#define EXIT_READS 64 /* how often the socket is read before an exit is told: more than its buffer holds */

struct task_intercept {
        struct interception how; /* `frame` is given up when the first program is told or asked about */
        int socket;              /* to the broker; -1: none */
        int broker_socket;       /* its end, until the command is on its way */
        struct watch *watch;
        bool is_paused;
        bool is_over;     /* clients are told nothing more: process/closed comes last */
        bool is_handling; /* handle_frames is at work: what it tells may lead to another call */
        struct buf in, out;
        struct list questions; /* exec_question::link, in order */
        size_t question_count;
        uint64_t last_number; /* the requestId of the newest question */
};

static struct client *listener_of(const struct task *t)
{
        struct client *c = t->session->client;
        return c && t->is_named && conn_is_usable(c->conn) ? c : NULL;
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void question_forget(struct task *t, struct exec_question *q)
{
        t->session->server->question_bytes -= q->bytes;
        t->intercept->question_count--;
        exec_question_free(q);
        if (t->intercept->question_count == 0)
                task_limits_go_on(t);
}

/* Removes the question, and tells the client how it ended, unless that client ended it. */
static void question_end(struct task *t, struct exec_question *q, const char *decision,
                         const struct client *by)
{
        struct client *c = listener_of(t);
        if (c && c != by)
                exec_question_tell(c, task_id(t), q->number, decision, &q->asked);
        question_forget(t, q);
}

static void withdraw_all(struct task *t)
{
        struct exec_question *q;
        while ((q = list_first(&t->intercept->questions, struct exec_question, link)))
                question_end(t, q, "withdrawn", NULL);
}

/* Returns why there is no room for one more question, or NULL. */
static const char *refuse_question(const struct task *t, uint64_t bytes)
{
        if (t->intercept->question_count >= LIMIT_INTERCEPT_QUESTIONS)
                return "too many programs of this process wait for a decision";
        uint64_t used = t->session->server->question_bytes;
        if (used > LIMIT_INTERCEPT_TOTAL_BYTES || bytes > LIMIT_INTERCEPT_TOTAL_BYTES - used)
                return "too many programs of all processes wait for a decision";
        return NULL;
}

/* Opens a question. Takes it. */
static void question_add(struct task *t, struct exec_question *q)
{
        struct task_intercept *i = t->intercept;
        i->last_number = q->number;
        t->session->server->question_bytes += q->bytes;
        list_append(&i->questions, &q->link);
        if (i->question_count++ == 0)
                task_limits_hold(t);
}

static struct exec_question *question_of_broker(const struct task_intercept *i, uint32_t id)
{
        struct exec_question *q;
        list_each (q, &i->questions, link)
                if (!q->is_first && q->asked.id == id)
                        return q;
        return NULL;
}

/* Returns the first question with a higher number. */
static struct exec_question *question_after(const struct task_intercept *i, uint64_t number)
{
        struct exec_question *q;
        list_each (q, &i->questions, link)
                if (q->number > number)
                        return q;
        return NULL;
}

/* --- the socket --------------------------------------------------------------------------------------------------- */

/* The broker denies what it has asked about when its socket is closed. */
static void disconnect(struct task_intercept *i)
{
        i->watch = watch_free(i->watch);
        i->socket = fd_close(i->socket);
        i->broker_socket = fd_close(i->broker_socket);
        buf_release(&i->in);
        buf_release(&i->out);
}

static void lose_broker(struct task *t, const char *why)
{
        if (why)
                log_warn("broker sends what it must not", "session=%.13s proc=%s why=%s", t->session->id,
                         log_quote(task_id(t)), why);
        disconnect(t->intercept);
        withdraw_all(t);
}

static void set_watch(struct task_intercept *i)
{
        if (i->watch)
                watch_set(i->watch, (i->is_paused ? 0u : WATCH_READ) | (i->out.n > 0 ? WATCH_WRITE : 0u));
}

static void flush(struct task *t)
{
        struct task_intercept *i = t->intercept;
        while (i->out.n > 0) {
                ssize_t n = send(i->socket, i->out.p, i->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && !fd_is_passing(errno)) {
                        lose_broker(t, NULL);
                        return;
                }
                if (n <= 0)
                        break;
                buf_consume(&i->out, (size_t)n);
        }
        set_watch(i);
}

static void answer(struct task *t, uint32_t id, enum intercept_action action, bool is_remembered,
                   struct slice reason)
{
        struct task_intercept *i = t->intercept;
        const struct intercept_message m = {
                .kind = INTERCEPT_MSG_ANSWER,
                .answer = { .id = id, .action = action, .is_remembered = is_remembered, .reason = reason },
        };
        if (i->socket < 0)
                return;
        if (intercept_message_write(&i->out, &m) < 0)
                lose_broker(t, "it reads no answers");
        else
                flush(t);
}

static void deny(struct task *t, uint32_t id, const char *reason)
{
        answer(t, id, INTERCEPT_DENY, false, slice_from_str(reason));
}

/* --- frames of the broker ----------------------------------------------------------------------------------------- */

static void on_ask(struct task *t, const struct intercept_question *asked, struct slice frame)
{
        struct task_intercept *i = t->intercept;
        const char *refusal = refuse_question(t, frame.n);
        if (question_of_broker(i, asked->id)) {
                lose_broker(t, "the id of an open question");
                return;
        }
        if (!t->is_named || t->session->is_ended || i->is_over)
                refusal = OVER;
        if (refusal) {
                deny(t, asked->id, refusal);
                return;
        }
        struct exec_question *q = exec_question_new(frame, i->last_number + 1, false);
        question_add(t, q);
        struct client *c = listener_of(t);
        if (!c || exec_question_tell(c, task_id(t), q->number, "ask", &q->asked))
                return;
        uint32_t id = q->asked.id;
        question_forget(t, q);
        deny(t, id, TOO_LONG);
}

static void on_frame(struct task *t, const struct intercept_message *m, struct slice frame)
{
        struct client *c = listener_of(t);
        struct exec_question *q;
        switch (m->kind) {
        case INTERCEPT_MSG_ASK:
                on_ask(t, &m->question, frame);
                return;
        case INTERCEPT_MSG_TOLD:
                if (c && t->intercept->how.options.reports && !t->intercept->is_over)
                        exec_question_tell(c, task_id(t), 0, intercept_action_name(m->question.action),
                                           &m->question);
                return;
        case INTERCEPT_MSG_WITHDRAWN:
                if ((q = question_of_broker(t->intercept, m->withdrawn)))
                        question_end(t, q, "withdrawn", NULL);
                return;
        case INTERCEPT_MSG_ANSWER:
                break;
        }
        lose_broker(t, "an answer");
}

/* Handles the frames that are complete. The client may be lost by what it is told, and the task with it: it is freed at the end of the
 * turn. */
static void handle_frames(struct task *t)
{
        struct task_intercept *i = t->intercept;
        size_t at = 0;
        if (i->is_handling)
                return;
        i->is_handling = true;
        while (i->socket >= 0 && !i->is_paused) {
                struct intercept_message m;
                struct slice rest = slice_from(i->in.p + at, i->in.n - at);
                ssize_t n = intercept_message_read(rest, &m);
                if (n < 0) {
                        lose_broker(t, "bytes that are no frame");
                        break;
                }
                if (n == 0)
                        break;
                at += (size_t)n;
                on_frame(t, &m, slice_from(rest.p, (size_t)n));
        }
        i->is_handling = false;
        if (i->socket >= 0)
                buf_consume(&i->in, at);
}

/* Reads once. Returns whether there was something to read. */
static bool read_some(struct task *t)
{
        struct task_intercept *i = t->intercept;
        char *room;
        if (i->socket < 0 || i->is_paused)
                return false;
        int r = buf_reserve_or_fail(&i->in, LIMIT_READ_BYTES, &room);
        ssize_t n = r < 0 ? -1 : recv(i->socket, room, LIMIT_READ_BYTES, MSG_DONTWAIT);
        if (r < 0 || (n < 0 && (errno == EINTR || fd_is_passing(errno))))
                return false;
        if (n <= 0) {
                lose_broker(t, NULL);
                return false;
        }
        buf_commit(&i->in, (size_t)n);
        handle_frames(t);
        return true;
}

static void on_socket(void *arg, unsigned events)
{
        struct task *t = arg;
        if (events & WATCH_WRITE)
                flush(t);
        if (events & WATCH_READ)
                (void)read_some(t);
}

/* --- the life of a task ------------------------------------------------------------------------------------------- */

void task_intercept_begin(struct task *t, struct interception *from)
{
        struct task_intercept *i = mem_new(struct task_intercept);
        i->how = *from;
        *from = INTERCEPTION_NONE;
        i->socket = i->broker_socket = -1;
        buf_init(&i->in, LIMIT_INTERCEPT_FRAME_BYTES + LIMIT_READ_BYTES);
        buf_init(&i->out, OUT_BYTES);
        list_init(&i->questions);
        t->intercept = i;
}

void task_intercept_free(struct task *t)
{
        struct task_intercept *i = TAKE(t->intercept);
        if (!i)
                return;
        must(list_is_empty(&i->questions));
        disconnect(i);
        interception_release(&i->how);
        free(i);
}

static struct exec_question *first_question(const struct task *t)
{
        struct task_intercept *i = t->intercept;
        struct exec_question *q = i ? list_first(&i->questions, struct exec_question, link) : NULL;
        return q && q->is_first ? q : NULL; /* no other question is open before the start */
}

bool task_intercept_is_asking(const struct task *t)
{
        return first_question(t) != NULL;
}

bool task_intercept_is_escalated(const struct task *t)
{
        return t->intercept && t->intercept->how.action == INTERCEPT_ESCALATE;
}

int task_intercept_ask_first(struct task *t, uint64_t bytes, struct err *err)
{
        struct task_intercept *i = t->intercept;
        uint64_t all = bytes + i->how.frame_bytes;
        if (refuse_question(t, all))
                return req_limit(err, "bytes of open questions", LIMIT_INTERCEPT_TOTAL_BYTES);
        struct exec_question *q =
                exec_question_new(slice_from(i->how.frame, i->how.frame_bytes), i->last_number + 1, true);
        q->bytes += bytes;
        free(TAKE(i->how.frame));
        question_add(t, q);
        struct client *c = listener_of(t);
        if (!c || exec_question_tell(c, task_id(t), q->number, "ask", &q->asked))
                return 0;
        question_forget(t, q);
        return err_set(err, RPC_INVALID_REQUEST, -EMSGSIZE, "Execution denied: %s", TOO_LONG);
}

int task_intercept_connect(struct task *t, struct command_spec *command)
{
        struct task_intercept *i = t->intercept;
        int ends[2];
        if (!i || task_intercept_is_escalated(t))
                return 0;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return -errno;
        i->socket = ends[0];
        i->broker_socket = ends[1];
        command->is_intercepted = true;
        command->intercept_config = i->how.config;
        command->intercept_socket = i->broker_socket;
        return 0;
}

void task_intercept_handed_over(struct task *t)
{
        if (t->intercept)
                t->intercept->broker_socket = fd_close(t->intercept->broker_socket);
}

void task_intercept_disconnect(struct task *t)
{
        if (t->intercept)
                disconnect(t->intercept);
}

/* Tells of the first program, when the client wants to be told of everything. */
static void tell_first(struct task *t)
{
        struct interception *how = &t->intercept->how;
        struct client *c = listener_of(t);
        struct intercept_message m;
        if (how->frame && c && how->options.reports &&
            intercept_message_read(slice_from(how->frame, how->frame_bytes), &m) > 0)
                exec_question_tell(c, task_id(t), 0, intercept_action_name(how->action), &m.question);
        free(TAKE(how->frame));
}

void task_intercept_started(struct task *t)
{
        struct task_intercept *i = t->intercept;
        if (!i)
                return;
        i->how.config = fd_close(i->how.config);
        tell_first(t);
        if (i->socket < 0)
                return;
        if (watch_new(&t->session->server->loop, i->socket, 0, on_socket, t, &i->watch) < 0)
                lose_broker(t, NULL);
        else
                set_watch(i);
}

void task_intercept_pause(struct task *t, bool paused)
{
        struct task_intercept *i = t->intercept;
        if (!i || i->is_paused == paused)
                return;
        i->is_paused = paused;
        if (!paused && i->watch) /* frames that were read before the pause */
                handle_frames(t);
        set_watch(i);
}

void task_intercept_exited(struct task *t)
{
        for (unsigned n = 0; t->intercept && n < EXIT_READS && read_some(t); n++)
                ;
}

void task_intercept_closed(struct task *t)
{
        struct task_intercept *i = t->intercept;
        struct exec_question *q;
        if (!i)
                return;
        task_intercept_exited(t);
        i->is_over = true;
        while ((q = list_first(&i->questions, struct exec_question, link))) {
                uint32_t id = q->asked.id;
                question_end(t, q, "withdrawn", NULL);
                deny(t, id, OVER);
        }
}

void task_intercept_end(struct task *t)
{
        if (!t->intercept)
                return;
        task_intercept_exited(t);
        disconnect(t->intercept);
        withdraw_all(t);
}

static void decide_first(struct task *t, enum intercept_action action, struct slice reason)
{
        struct err err = ERR_INIT;
        if (action == INTERCEPT_DENY) {
                err.reason = "execDenied";
                err_set(&err, RPC_INVALID_REQUEST, -EPERM,
                        reason.n ? "Execution denied: %.*s" : "Execution denied", SLICE(reason));
        }
        t->intercept->how.action = action;
        task_start_decided(t, err.code < 0 ? &err : NULL);
}

/* Tells an open question to a client, or denies what the client cannot be told of. */
static void tell_question(struct task *t, struct client *c, struct exec_question *q)
{
        if (exec_question_tell(c, task_id(t), q->number, "ask", &q->asked))
                return;
        bool is_first = q->is_first;
        uint32_t id = q->asked.id;
        question_forget(t, q);
        if (is_first)
                decide_first(t, INTERCEPT_DENY, S(TOO_LONG));
        else
                deny(t, id, TOO_LONG);
}

void task_intercept_tell_again(struct task *t)
{
        struct client *c;
        struct exec_question *q;
        /* What is told may end the connection, and questions with it: the list is walked by the numbers. */
        for (uint64_t told = 0;
             t->intercept && (c = listener_of(t)) && (q = question_after(t->intercept, told));) {
                told = q->number;
                tell_question(t, c, q);
        }
}

void task_intercept_withdraw_first(struct task *t)
{
        struct exec_question *q = first_question(t);
        if (q)
                question_end(t, q, "withdrawn", NULL);
}

bool task_intercept_holds_limits(const struct task *t)
{
        return t->intercept && t->intercept->question_count > 0;
}

/* --- decisions ---------------------------------------------------------------------------------------------------- */

static int unknown_question(const struct process_exec_decide *in, struct err *err)
{
        return err_set(err, RPC_INVALID_REQUEST, -ENOENT, "unknown request id %.*s",
                       (int)MIN(in->request_id.n, (size_t)64), in->request_id.p);
}

int task_exec_decide(struct task *t, struct req *req, const struct process_exec_decide *in, struct err *err)
{
        static const enum intercept_action actions[] = { [EXEC_DECIDED_RUN] = INTERCEPT_RUN,
                                                         [EXEC_DECIDED_ESCALATE] = INTERCEPT_ESCALATE,
                                                         [EXEC_DECIDED_DENY] = INTERCEPT_DENY };
        enum intercept_action action = actions[in->decision];
        uint64_t number;
        if (slice_to_u64(in->request_id, UINT64_MAX, &number) < 0 ||
            (in->request_id.n > 0 && in->request_id.p[0] == '0'))
                return unknown_question(in, err);
        struct exec_question *q =
                t->intercept && number > 0 ? question_after(t->intercept, number - 1) : NULL;
        if (!q || q->number != number)
                return unknown_question(in, err);
        bool is_first = q->is_first;
        uint32_t id = q->asked.id;
        question_end(t, q, intercept_action_name(action), req->client);
        req_reply_empty(req->client, req->id);
        if (is_first)
                decide_first(t, action, in->reason);
        else
                answer(t, id, action, in->is_remembered, in->reason);
        return 0;
}

/* --- what is told of a task --------------------------------------------------------------------------------------- */

void task_intercept_open_write(struct jsonw *w, const struct task *t)
{
        if (t->intercept)
                jsonw_member_u64(w, "openQuestions", t->intercept->question_count);
}

/* The broker counts what is executed below the first program. */
void task_intercept_exit_write(struct jsonw *w, const struct task *t)
{
        const struct task_intercept *i = t->intercept;
        if (!i)
                return;
        const struct spawn_intercepted *n = &t->process->exit.intercepted;
        bool has_first = i->how.options.scope == INTERCEPT_ALL;
        jsonw_key(w, "intercepted");
        jsonw_object(w);
        jsonw_member_u64(w, "run", n->run + (has_first && i->how.action == INTERCEPT_RUN));
        jsonw_member_u64(w, "escalated", n->escalated + (has_first && i->how.action == INTERCEPT_ESCALATE));
        jsonw_member_u64(w, "denied", n->denied);
        jsonw_object_end(w);
}

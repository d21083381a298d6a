/* task_intercept_socket: reads the frames of the broker, and writes it the answers. */
#include "base/fd.h"
#include "base/log.h"
#include "session/task_intercept_internal.h"

#include <errno.h>
#include <sys/socket.h>

/* Every open question may have one answer that is not written yet. */
#define OUT_BYTES ((size_t)LIMIT_INTERCEPT_QUESTIONS * (LIMIT_INTERCEPT_REASON_BYTES + 64))

void intercept_socket_init(struct task_intercept *i)
{
        i->socket = i->broker_socket = -1;
        buf_init(&i->in, LIMIT_INTERCEPT_FRAME_BYTES + LIMIT_READ_BYTES);
        buf_init(&i->out, OUT_BYTES);
}

void intercept_disconnect(struct task_intercept *i)
{
        i->watch = watch_free(i->watch);
        i->socket = fd_close(i->socket);
        i->broker_socket = fd_close(i->broker_socket);
        buf_release(&i->in);
        buf_release(&i->out);
}

void intercept_lose_broker(struct task *t, const char *why)
{
        if (why)
                log_warn("broker has broken the protocol", "session=%.13s proc=%s why=%s", t->session->id,
                         log_quote(task_id(t)), why);
        intercept_disconnect(t->intercept);
        questions_withdraw(t);
}

void intercept_set_watch(struct task_intercept *i)
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
                        intercept_lose_broker(t, NULL);
                        return;
                }
                if (n <= 0)
                        break;
                buf_consume(&i->out, (size_t)n);
        }
        intercept_set_watch(i);
}

void intercept_answer(struct task *t, uint32_t id, enum intercept_action action, bool is_remembered,
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
                intercept_lose_broker(t, "answers are not read");
        else
                flush(t);
}

void intercept_deny(struct task *t, uint32_t id, const char *reason)
{
        intercept_answer(t, id, INTERCEPT_DENY, false, slice_from_str(reason));
}

/* --- frames of the broker ----------------------------------------------------------------------------------------- */

static void on_ask(struct task *t, const struct intercept_question *asked, struct slice frame)
{
        struct task_intercept *i = t->intercept;
        const char *refusal = questions_refuse(t, frame.n);
        if (question_of_broker(i, asked->id)) {
                intercept_lose_broker(t, "a question has the id of an open question");
                return;
        }
        if (!t->is_named || t->session->is_ended || i->is_over)
                refusal = NOBODY_DECIDES;
        if (refusal) {
                intercept_deny(t, asked->id, refusal);
                return;
        }
        struct exec_question *q = exec_question_new(frame, i->last_number + 1, false);
        question_add(t, q);
        struct client *c = intercept_listener(t);
        if (!c || exec_question_tell(c, task_id(t), q->number, "ask", &q->asked))
                return;
        uint32_t id = q->asked.id;
        question_forget(t, q);
        intercept_deny(t, id, QUESTION_TOO_LONG);
}

static void on_frame(struct task *t, const struct intercept_message *m, struct slice frame)
{
        struct client *c = intercept_listener(t);
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
        intercept_lose_broker(t, "an answer came from the broker");
}

void intercept_handle_frames(struct task *t)
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
                        intercept_lose_broker(t, "there are bytes that are no frame");
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

bool intercept_read(struct task *t)
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
                intercept_lose_broker(t, NULL);
                return false;
        }
        buf_commit(&i->in, (size_t)n);
        intercept_handle_frames(t);
        return true;
}

void intercept_on_socket(void *arg, unsigned events)
{
        struct task *t = arg;
        if (events & WATCH_WRITE)
                flush(t);
        if (events & WATCH_READ)
                (void)intercept_read(t);
}

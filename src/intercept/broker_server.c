/* broker_server: questions and reports to the server, and its answers. A server that breaks the protocol counts as lost: open and later
 * questions are denied then. */
#include "intercept/broker_internal.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <sys/socket.h>

#define READ_BYTES 16384

static void server_lose(struct broker *b)
{
        b->start.socket = fd_close(b->start.socket);
        b->is_lost = true;
        buf_release(&b->in);
        buf_release(&b->out);
        requests_deny_asked(b);
}

void server_write(struct broker *b)
{
        while (!b->is_lost && b->out.n > 0) {
                ssize_t n = send(b->start.socket, b->out.p, b->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && fd_is_passing(errno))
                        return;
                if (n < 0)
                        server_lose(b);
                else
                        buf_consume(&b->out, (size_t)n);
        }
}

/* Returns false when the server has sent what is no message for a broker. */
static bool frames_take(struct broker *b)
{
        for (;;) {
                struct intercept_message m;
                ssize_t n = intercept_message_read(buf_slice(&b->in), &m);
                if (n == 0)
                        return b->in.n < b->in.cap;
                if (n < 0 || m.kind != INTERCEPT_MSG_ANSWER)
                        return false;
                request_answer(b, &m.answer);
                if (b->is_lost)
                        return true;
                buf_consume(&b->in, (size_t)n);
        }
}

void server_read(struct broker *b)
{
        char *p;
        size_t room = MIN(b->in.cap - b->in.n, (size_t)READ_BYTES);
        if (b->is_lost || buf_reserve(&b->in, room, &p) < 0)
                return;
        ssize_t n = recv(b->start.socket, p, room, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || fd_is_passing(errno)))
                return;
        if (n > 0)
                buf_commit(&b->in, (size_t)n);
        if (n <= 0 || !frames_take(b))
                server_lose(b);
}

int server_queue(struct broker *b, const struct intercept_message *m)
{
        if (b->is_lost)
                return -EPIPE;
        int r = intercept_message_write(&b->out, m);
        if (r == 0)
                server_write(b);
        return r;
}

struct intercept_question server_question(const struct request *r, enum intercept_action action,
                                          const struct exec_rule *rule)
{
        const struct caller *c = &r->caller;
        struct intercept_question q = {
                .pid = c->status.process > 0 ? c->status.process : c->thread,
                .action = action,
                .accepted = action,
                .file = buf_slice(&c->file),
                .cwd = c->cwd.n > 0 ? buf_slice(&c->cwd) : S("/"),
                .argv = buf_slice(&c->argv_text),
                .argc = (uint32_t)c->argc,
        };
        if (rule) {
                q.rule_text = slice_from_str(rule->text_name);
                q.rule_line = rule->line;
                q.justification = rule->justification;
        }
        return q;
}

/* Shortens a report whose arguments are too long: leaves out whole arguments from the end. */
static void question_cut(struct intercept_question *q)
{
        size_t n = 0, count = 0;
        if (q->argv.n <= LIMIT_INTERCEPT_ARGV_BYTES)
                return;
        while (n < q->argv.n) {
                size_t next = n + strlen(q->argv.p + n) + 1;
                if (next > LIMIT_INTERCEPT_ARGV_BYTES)
                        break;
                n = next;
                count++;
        }
        q->omitted_bytes = q->argv.n - n;
        q->argv.n = n;
        q->argc = (uint32_t)count;
}

void server_tell(struct broker *b, struct request *r, enum intercept_action action,
                 const struct exec_rule *rule)
{
        if (!b->options.reports || b->is_lost)
                return;
        (void)caller_read_cwd(&r->caller); /* without it the report has "/" */
        struct intercept_message m = { .kind = INTERCEPT_MSG_TOLD,
                                       .question = server_question(r, action, rule) };
        question_cut(&m.question);
        (void)server_queue(b, &m); /* a report that is too long is left out */
}

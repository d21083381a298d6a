/* unified_lines: begins what lines of stdin ask for, and writes what the table tells as lines of stdout. */
#include "agent/unified_lines.h"

#include "agent/unified_request.h"
#include "agent/unified_write.h"
#include "base/list.h"
#include "base/mem.h"

/* A call that is under way. */
struct running {
        struct list link; /* lines::running */
        struct lines *lines;
        char *id;
        struct unified_call *call;
};

struct lines {
        struct talk *talk;
        struct unified *table;
        struct approvals *approvals;
        struct list running; /* running::link */
};

static void put(struct lines *t, struct buf *line)
{
        talk_put(t->talk, line);
}

static void put_error(struct lines *t, const char *id, const char *message)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_error(&line, id, message);
        put(t, &line);
}

/* ---- what the table tells ---- */

static void running_free(struct running *r)
{
        list_remove(&r->link);
        free(r->id);
        free(r);
}

static void on_result(UNUSED void *arg, void *call_arg, const struct unified_result *result)
{
        struct running *r = call_arg;
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_result(&line, r->id, result);
        put(r->lines, &line);
        running_free(r);
}

static void on_event(void *arg, const struct unified_event *event)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_event(&line, event);
        put(arg, &line);
}

static void on_question(void *arg, const struct approval_question *question)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_question(&line, question);
        put(arg, &line);
}

static void on_withdrawal(void *arg, uint64_t question_id)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        write_withdrawal(&line, question_id);
        put(arg, &line);
}

/* ---- what is asked for ---- */

static struct running *find(struct lines *t, const char *id)
{
        struct running *r;
        list_each (r, &t->running, link)
                if (strcmp(r->id, id) == 0)
                        return r;
        return NULL;
}

static void begin_call(struct lines *t, const struct request *request)
{
        if (find(t, request->id)) {
                put_error(t, request->id, "a call with this id is under way");
                return;
        }
        struct running *r = mem_new(struct running);
        r->lines = t;
        r->id = mem_strdup(request->id);
        list_append(&t->running, &r->link);
        r->call = unified_begin(t->table, request->tool, request->arguments, r->id, r);
        if (!r->call) {
                put_error(t, request->id, "too many calls are under way");
                running_free(r);
        }
}

static void cancel(struct lines *t, const struct request *request)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        struct running *r = find(t, request->cancelled);
        if (r)
                unified_cancel(r->call);
        write_flag(&line, request->id, "cancelled", r != NULL);
        put(t, &line);
}

static void answer(struct lines *t, const struct request *request)
{
        _buf_ struct buf line = BUF_INIT(WRITE_LINE_MAX);
        bool is_known = approvals_answer(t->approvals, request->question_id, request->answer);
        if (request->id)
                write_flag(&line, request->id, "answered", is_known);
        else if (!is_known)
                write_error(&line, NULL, "there is no open question with this `question_id`");
        put(t, &line);
}

static void on_line(void *arg, struct slice line)
{
        struct lines *t = arg;
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf out = BUF_INIT(WRITE_LINE_MAX);
        struct request request;
        struct err err = ERR_INIT;
        if (request_read(&a, line, &request, &err) < 0) {
                put_error(t, request.id, err.text);
                return;
        }
        switch (request.kind) {
        case REQUEST_CALL:
                begin_call(t, &request);
                break;
        case REQUEST_LIST_SESSIONS:
                write_sessions(&out, request.id, t->table);
                break;
        case REQUEST_LIST_GRANTS:
                write_grants(&out, request.id, t->approvals);
                break;
        case REQUEST_CANCEL:
                cancel(t, &request);
                break;
        case REQUEST_ANSWER:
                answer(t, &request);
                break;
        }
        put(t, &out);
}

static void on_long_line(void *arg)
{
        put_error(arg, NULL, "the line is too long");
}

struct lines *lines_new(void)
{
        struct lines *t = mem_new(struct lines);
        list_init(&t->running);
        struct talk_user user = { .on_line = on_line, .on_long_line = on_long_line, .arg = t };
        t->talk = talk_new(&user);
        return t;
}

void lines_free(struct lines *t)
{
        if (!t)
                return;
        while (!list_is_empty(&t->running))
                running_free(list_first(&t->running, struct running, link));
        talk_free(t->talk);
        free(t);
}

void lines_prepare(struct lines *t, struct unified_options *options, struct approvals_asker *asker)
{
        options->on_result = on_result;
        options->on_event = on_event;
        options->arg = t;
        *asker = (struct approvals_asker){ .ask = on_question, .withdraw = on_withdrawal, .arg = t };
}

int lines_run(struct lines *t, struct unified *table, struct approvals *approvals)
{
        t->table = table;
        t->approvals = approvals;
        return talk_run(t->talk, table, approvals);
}

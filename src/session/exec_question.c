/* exec_question: writes process/execRequested (docs/PROTOCOL.md). */
#include "session/exec_question.h"

#include "base/mem.h"
#include "base/utf8.h"

#define OVERHEAD_BYTES 4096 /* more than the notification has beside its texts */
#define NUMBER_BYTES 24

struct exec_question *exec_question_new(struct slice frame, uint64_t number, bool is_first)
{
        struct exec_question *q = mem_new(struct exec_question);
        struct intercept_message m;
        q->number = number;
        q->is_first = is_first;
        q->bytes = sizeof(*q) + frame.n;
        q->frame = slice_dup(frame);
        must(intercept_message_read(slice_from(q->frame, frame.n), &m) == (ssize_t)frame.n);
        q->asked = m.question;
        list_init(&q->link);
        return q;
}

void exec_question_free(struct exec_question *q)
{
        list_remove(&q->link);
        free(q->frame);
        free(q);
}

/* Takes the next argument from *rest. */
static struct slice next_argument(struct slice *rest)
{
        size_t n = (size_t)((const char *)memchr(rest->p, 0, rest->n) - rest->p);
        struct slice word = slice_from(rest->p, n);
        *rest = slice_from(rest->p + n + 1, rest->n - n - 1);
        return word;
}

/* Writes a text, and its bytes beside it when it is not UTF-8. */
static void write_text(struct jsonw *w, const char *key, const char *bytes_key, struct slice s)
{
        jsonw_member_string(w, key, s);
        if (utf8_is_valid(s))
                return;
        jsonw_key(w, bytes_key);
        jsonw_base64(w, s);
}

static void write_argv(struct jsonw *w, struct slice argv)
{
        bool is_text =
                utf8_is_valid(argv); /* true when each argument is UTF-8: the NULs between them are, too */
        jsonw_key(w, "argv");
        jsonw_array(w);
        for (struct slice rest = argv; rest.n > 0;)
                jsonw_string(w, next_argument(&rest));
        jsonw_array_end(w);
        if (is_text)
                return;
        jsonw_key(w, "argvBase64");
        jsonw_array(w);
        for (struct slice rest = argv; rest.n > 0;)
                jsonw_base64(w, next_argument(&rest));
        jsonw_array_end(w);
}

static void write_rule(struct jsonw *w, const struct intercept_question *q)
{
        jsonw_key(w, "rule");
        jsonw_object(w);
        jsonw_member_string(w, "name", q->rule_text);
        jsonw_member_u64(w, "line", q->rule_line);
        if (q->justification.p)
                jsonw_member_string(w, "justification", q->justification);
        jsonw_object_end(w);
}

/* Writes the absolute path of the program. The caller may have passed a path that is relative to its cwd. */
static void write_file(struct jsonw *w, const struct intercept_question *q)
{
        _arena_ struct arena a = ARENA_INIT;
        write_text(w, "file", "fileBase64",
                   intercept_path(&a, &(struct intercept_exec){ .file = q->file, .cwd = q->cwd }));
}

static void write_members(struct jsonw *w, struct slice task_id, uint64_t number, const char *decision,
                          const struct intercept_question *q)
{
        char request_id[NUMBER_BYTES];
        snprintf(request_id, sizeof(request_id), "%llu", (unsigned long long)number);
        jsonw_member_string(w, "processId", task_id);
        jsonw_member_str(w, "requestId", number ? request_id : NULL);
        write_file(w, q);
        write_argv(w, q->argv);
        if (q->omitted_bytes > 0)
                jsonw_member_u64(w, "omittedBytes", q->omitted_bytes);
        write_text(w, "cwd", "cwdBase64", q->cwd);
        if (q->pid > 0)
                jsonw_member_i64(w, "pid", q->pid);
        else
                jsonw_member_null(w, "pid");
        jsonw_member_str(w, "decision", decision);
        if (q->rule_text.p)
                write_rule(w, q);
}

/* Does the notification fit into a message to this client? */
static bool fits(const struct client *c, struct slice task_id, const char *decision,
                 const struct intercept_question *q)
{
        size_t max = c->conn->out.max_message - OVERHEAD_BYTES;
        size_t texts = task_id.n + q->file.n + q->cwd.n + q->argv.n + q->rule_text.n + q->justification.n;
        if (texts < max / 8) /* a byte is at most six bytes in JSON, and two in base64 */
                return true;
        _buf_ struct buf scratch = BUF_INIT(max);
        struct jsonw w;
        jsonw_begin(&w, &scratch);
        jsonw_object(&w);
        write_members(&w, task_id, UINT64_MAX, decision, q);
        jsonw_object_end(&w);
        return jsonw_end(&w) == 0;
}

/* Leaves out the last arguments, so that less than `max` bytes are left. */
static void cut(struct intercept_question *q, size_t max)
{
        struct slice rest = q->argv;
        uint32_t count = 0;
        for (; count < q->argc; count++) {
                struct slice tried = rest;
                (void)next_argument(&tried);
                if (q->argv.n - tried.n > max)
                        break;
                rest = tried;
        }
        q->omitted_bytes += rest.n;
        q->argv.n -= rest.n;
        q->argc = count;
}

bool exec_question_tell(struct client *c, struct slice task_id, uint64_t number, const char *decision,
                        const struct intercept_question *q)
{
        struct intercept_question told = *q;
        if (!fits(c, task_id, decision, q)) {
                if (q->id != 0)
                        return false;
                told.justification.p = NULL;
                cut(&told, c->conn->out.max_message / 16);
        }
        struct jsonw w;
        conn_notify_begin(c->conn, "process/execRequested",
                          2 * told.argv.n + told.file.n + told.cwd.n + jsonw_string_max(task_id) + 256, &w);
        write_members(&w, task_id, number, decision, &told);
        conn_notify_end(c->conn, &w);
        return true;
}

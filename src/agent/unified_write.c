/* unified_write: writes the lines that `farhand unified` prints. */
#include "agent/unified_write.h"

#include "base/fatal.h"
#include "unified/answer_json.h"

#include <inttypes.h>
#include <stdio.h>

#define SOURCE "unified_exec_startup" /* the member that says by which tool a process was started */

static void line_begin(struct jsonw *w, struct buf *out)
{
        jsonw_begin(w, out);
        jsonw_object(w);
}

static void line_end(struct jsonw *w)
{
        jsonw_object_end(w);
        must(jsonw_end(w) == 0 && buf_append_char(w->out, '\n') == 0);
}

static void write_id(struct jsonw *w, const char *key, const char *id)
{
        jsonw_key(w, key);
        jsonw_raw(w, slice_from_str(id ? id : "null"));
}

void write_error(struct buf *out, const char *id, const char *message)
{
        struct jsonw w;
        line_begin(&w, out);
        write_id(&w, "id", id);
        jsonw_key(&w, "error");
        jsonw_object(&w);
        jsonw_member_str(&w, "message", message);
        jsonw_object_end(&w);
        line_end(&w);
}

void write_result(struct buf *out, const char *id, const struct unified_result *result)
{
        struct jsonw w;
        if (result->error) {
                write_error(out, id, result->error);
                return;
        }
        line_begin(&w, out);
        write_id(&w, "id", id);
        jsonw_key(&w, "result");
        jsonw_object(&w);
        answer_json_members(&w, result);
        jsonw_member_string(&w, "text", result->text);
        jsonw_object_end(&w);
        line_end(&w);
}

/* ---- events ---- */

static void write_texts(struct jsonw *w, const char *key, const char *const *list)
{
        jsonw_key(w, key);
        jsonw_array(w);
        for (; *list; list++)
                jsonw_str(w, *list);
        jsonw_array_end(w);
}

static void write_process(struct jsonw *w, const struct unified_event *e)
{
        jsonw_member_str(w, "environment_id", e->environment_id);
        write_texts(w, "command", e->argv);
        jsonw_member_str(w, "cwd", e->cwd);
        jsonw_member_bool(w, "tty", e->tty);
        jsonw_member_str(w, "source", SOURCE);
}

void write_event(struct buf *out, const struct unified_event *e)
{
        static const char *const names[] = { [UNIFIED_BEGIN] = "exec_command_begin",
                                             [UNIFIED_DELTA] = "exec_command_output_delta",
                                             [UNIFIED_INTERACTION] = "terminal_interaction",
                                             [UNIFIED_END] = "exec_command_end" };
        struct jsonw w;
        line_begin(&w, out);
        jsonw_member_str(&w, "event", names[e->kind]);
        write_id(&w, "call_id", e->call_id);
        jsonw_member_i64(&w, "process_id", e->session_id);
        switch (e->kind) {
        case UNIFIED_BEGIN:
                write_process(&w, e);
                break;
        case UNIFIED_DELTA:
                jsonw_member_str(&w, "stream", "stdout");
                jsonw_member_string(&w, "chunk", e->text);
                break;
        case UNIFIED_INTERACTION:
                jsonw_member_string(&w, "stdin", e->text);
                break;
        case UNIFIED_END:
                write_process(&w, e);
                jsonw_member_i64(&w, "exit_code", e->exit_code);
                answer_json_seconds(&w, "duration_seconds", e->duration_us);
                if (e->failure)
                        jsonw_member_str(&w, "failure", e->failure);
                jsonw_member_string(&w, "output", e->text);
                break;
        }
        line_end(&w);
}

void write_question(struct buf *out, const struct approval_question *q)
{
        const struct approval_action *a = q->action;
        struct jsonw w;
        line_begin(&w, out);
        jsonw_member_str(&w, "event", "approval_request");
        jsonw_member_u64(&w, "question_id", q->id);
        write_id(&w, "call_id", a->call_id);
        jsonw_member_str(&w, "reason", approval_reason_name(q->reason));
        jsonw_member_str(&w, "environment_id", a->environment_id);
        jsonw_member_str(&w, "cwd", a->cwd);
        if (a->argv) {
                write_texts(&w, "command", a->argv);
                jsonw_member_bool(&w, "tty", a->tty);
        } else {
                write_texts(&w, "paths", a->paths);
                write_texts(&w, "real_paths", a->real_paths);
        }
        if (a->justification)
                jsonw_member_str(&w, "justification", a->justification);
        jsonw_member_bool(&w, "outside_sandbox", q->is_outside);
        if (q->permissions) {
                jsonw_key(&w, "additional_permissions");
                jsonw_raw(&w, slice_from_str(q->permissions));
        }
        if (q->denials) {
                jsonw_key(&w, "denials");
                jsonw_raw(&w, slice_from_str(q->denials));
        }
        if (q->omitted)
                jsonw_member_u64(&w, "denials_omitted", q->omitted);
        line_end(&w);
}

void write_withdrawal(struct buf *out, uint64_t question_id)
{
        struct jsonw w;
        line_begin(&w, out);
        jsonw_member_str(&w, "event", "approval_withdrawn");
        jsonw_member_u64(&w, "question_id", question_id);
        line_end(&w);
}

/* ---- other results ---- */

static void result_begin(struct jsonw *w, struct buf *out, const char *id)
{
        line_begin(w, out);
        write_id(w, "id", id);
        jsonw_key(w, "result");
        jsonw_object(w);
}

static void result_end(struct jsonw *w)
{
        jsonw_object_end(w);
        line_end(w);
}

/* Ends the line of a list. A list may have more bytes than a line: then an error takes its place. */
static void list_end(struct jsonw *w, const char *id)
{
        jsonw_object_end(w);
        jsonw_object_end(w);
        if (jsonw_end(w) == 0 && buf_append_char(w->out, '\n') == 0)
                return;
        struct buf *out = w->out;
        buf_release(out);
        write_error(out, id, "the list is too long for one line");
}

void write_flag(struct buf *out, const char *id, const char *name, bool value)
{
        struct jsonw w;
        result_begin(&w, out, id);
        jsonw_member_bool(&w, name, value);
        result_end(&w);
}

void write_sessions(struct buf *out, const char *id, const struct unified *table)
{
        struct jsonw w;
        result_begin(&w, out, id);
        jsonw_key(&w, "sessions");
        unified_write_sessions(table, &w);
        list_end(&w, id);
}

void write_grants(struct buf *out, const char *id, const struct approvals *approvals)
{
        struct jsonw w;
        result_begin(&w, out, id);
        jsonw_key(&w, "grants");
        approvals_write_grants(approvals, &w);
        list_end(&w, id);
}

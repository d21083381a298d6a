/* lists: which processes and which sessions a server has, as far as this client may see them. */
#include "question/question.h"

#include "client/error.h"
#include "client/member.h"

#include <errno.h>

/* ---- processes ---- */

/* Returns the strings of an array, ended by NULL, in the arena; NULL when one of them is no text. */
static const char *const *texts_of(struct question *q, const struct json *object, struct slice key)
{
        const struct json *array = json_get(&q->doc, object, key);
        if (!array || array->type != JSON_ARRAY)
                return NULL;
        const char **texts = arena_alloc(&q->arena, (json_count(&q->doc, array) + 1) * sizeof(*texts));
        size_t n = 0;
        json_each (it, &q->doc, array) {
                struct slice text =
                        it->type == JSON_STRING ? json_string(&q->arena, &q->doc, it) : (struct slice){ 0 };
                if (!text.p || slice_has_nul(text))
                        return NULL;
                texts[n++] = arena_dup(&q->arena, text);
        }
        texts[n] = NULL;
        return texts;
}

/* Reads one process. Returns false when it has no id or no command that C can name. */
static bool read_process(struct question *q, const struct json *o, struct farhand_process_info *ret)
{
        *ret = (struct farhand_process_info){
                .process_id = member_text(&q->arena, &q->doc, o, S("processId")),
                .session_id = member_text(&q->arena, &q->doc, o, S("sessionId")),
                .argv = texts_of(q, o, S("argv")),
                .cwd = member_path(&q->arena, &q->doc, o, S("cwd")),
                .sandbox_type = member_text(&q->arena, &q->doc, o, S("sandboxType")),
                .tty = member_is_true(&q->doc, o, S("tty")),
                .is_running = member_is_true(&q->doc, o, S("running")),
                .is_closed = member_is_true(&q->doc, o, S("closed")),
                .pid = -1,
        };
        (void)member_i64(&q->doc, o, S("pid"), &ret->pid);
        (void)member_i64(&q->doc, o, S("startedAtMs"), &ret->started_ms);
        (void)member_i64(&q->doc, o, S("lastOutputAtMs"), &ret->last_output_ms);
        (void)member_u64(&q->doc, o, S("retainedBytes"), &ret->retained_bytes);
        (void)member_u64(&q->doc, o, S("droppedBytes"), &ret->dropped_bytes);
        (void)member_u64(&q->doc, o, S("nextSeq"), &ret->next_seq);
        client_exit_read(&q->doc, o, &ret->exit);
        return ret->process_id && ret->argv;
}

int farhand_list_processes(struct farhand *f, const struct farhand_process_query *query,
                           void (*on_process)(void *arg, const struct farhand_process_info *info), void *arg,
                           struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        struct farhand_process_query wanted = { 0 };
        if (query)
                memcpy(&wanted, query, MIN(query->size, sizeof(wanted)));
        if (wanted.session_id && wanted.all_sessions)
                return error_set(ret_error, -EINVAL, "either one session is asked for, or all");
        int r = question_needs(f, "processControlV1", "this server does not list processes", ret_error);
        if (r < 0)
                return r;
        question_begin(&q, f, "process/list", FARHAND_REPEAT);
        if (wanted.process_id)
                jsonw_member_str(&q.w, "processId", wanted.process_id);
        if (wanted.session_id)
                jsonw_member_str(&q.w, "sessionId", wanted.session_id);
        if (wanted.all_sessions)
                jsonw_member_str(&q.w, "scope", "server");
        r = question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *processes = question_array(&q, S("processes"), ret_error);
        if (!processes)
                return -EPROTO;
        json_each (it, &q.doc, processes) {
                struct farhand_process_info info;
                if (read_process(&q, it, &info))
                        on_process(arg, &info);
        }
        return 0;
}

/* ---- sessions ---- */

int farhand_list_sessions(struct farhand *f,
                          void (*on_session)(void *arg, const struct farhand_session_info *info), void *arg,
                          struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = question_needs(f, "processControlV1", "this server does not list sessions", ret_error);
        if (r < 0)
                return r;
        question_begin(&q, f, "session/list", FARHAND_REPEAT);
        r = question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *sessions = question_array(&q, S("sessions"), ret_error);
        if (!sessions)
                return -EPROTO;
        json_each (it, &q.doc, sessions) {
                struct farhand_session_info info = {
                        .session_id = member_text(&q.arena, &q.doc, it, S("sessionId")),
                        .client_name = member_text(&q.arena, &q.doc, it, S("clientName")),
                        .is_attached = member_is_true(&q.doc, it, S("attached")),
                };
                (void)member_i64(&q.doc, it, S("createdAtMs"), &info.created_ms);
                (void)member_i64(&q.doc, it, S("expiresAtMs"), &info.expires_ms);
                (void)member_u64(&q.doc, it, S("processes"), &info.processes);
                if (info.session_id)
                        on_session(arg, &info);
        }
        return 0;
}

/* calls: the life of a call, from its arguments over one step after the other to its result, which is told once. */
#include "unified/table_internal.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

void unified_call_fail(struct unified_call *c, const char *fmt, ...)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_UNIFIED_LINE_BYTES + TOOL_ANSWER_TEXT_MAX + 8192);
        va_list ap;
        va_start(ap, fmt);
        must(buf_vprintf(&text, fmt, ap) == 0);
        va_end(ap);
        free(c->error);
        c->error = buf_take(&text);
        c->state = CALL_DONE;
}

void unified_call_refuse(struct unified_call *c, int rpc_code, const char *text)
{
        unified_call_fail(c, "%s", text);
        c->rpc_code = rpc_code;
}

/* Takes what the session has written since the last call. The caller frees the bytes. */
static char *take_unread(struct exec_session *s, struct cut_output *ret)
{
        char *bytes = head_tail_take(&s->unread, &ret->bytes.n, &ret->head_bytes, &ret->omitted_bytes);
        ret->bytes.p = bytes;
        return bytes;
}

/* Fails a call whose process was lost. The error has the output that the process wrote before, because no later call can ask for it. */
static void fail_with_output(struct unified_call *c, const char *prefix)
{
        struct exec_session *s = c->session;
        struct cut_output output;
        UNUSED _free_ char *bytes = take_unread(s, &output); /* holds what `output` points at */
        _buf_ struct buf text = BUF_INIT(TOOL_ANSWER_TEXT_MAX), unused = BUF_INIT(2 * TOOL_ANSWER_TEXT_MAX);
        uint64_t tokens =
                c->tool == UNIFIED_EXEC_COMMAND ? c->exec.max_output_tokens : c->write.max_output_tokens;
        must(tool_answer_write(&(struct tool_answer){ 0 }, &output, tokens, c->table->options.budget, &text,
                               &unused) == 0);
        unified_call_fail(c, "%sUnified exec process failed: %s%s%s", prefix, s->failure,
                          text.n > 0 ? "\nOutput until then:\n" : "", text.p);
}

void unified_call_answer(struct unified_call *c, const char *prefix)
{
        struct exec_session *s = c->session;
        struct cut_output output;
        if (exec_session_is_lost(s)) {
                fail_with_output(c, prefix);
                exec_session_unlist(s);
                return;
        }
        UNUSED _free_ char *bytes = take_unread(s, &output); /* holds what `output` points at */
        tool_answer_chunk_id(c->answer.chunk_id);
        c->answer.wall_us = clock_mono_us() - c->began_us - c->asked_us;
        c->answer.has_exit_code = s->has_exited;
        c->answer.exit_code = s->exit.code;
        c->answer.session_id = s->has_exited ? 0 : s->id;
        c->answer.has_token_count = true;
        c->answer.token_count = cut_tokens(output.bytes.n + output.omitted_bytes);
        uint64_t tokens =
                c->tool == UNIFIED_EXEC_COMMAND ? c->exec.max_output_tokens : c->write.max_output_tokens;
        must(tool_answer_write(&c->answer, &output, tokens, c->table->options.budget, &c->output, &c->text) ==
             0);
        c->state = CALL_DONE;
        if (s->has_exited)
                exec_session_unlist(s);
}

void unified_call_wait(struct unified_call *c, enum call_state state, uint64_t wake_ms)
{
        c->state = state;
        c->wake_ms = wake_ms;
}

static void on_change(UNUSED struct approval *p, void *arg)
{
        ((struct unified_call *)arg)->table->is_due = true;
}

void unified_call_ask(struct unified_call *c, struct approval_action action)
{
        action.call_id = c->id;
        action.environment_id = c->host->id;
        action.cwd = c->cwd;
        c->approval = approval_new(c->table->options.approvals, &action, on_change, c);
        c->question_us = clock_mono_us();
        unified_call_wait(c, CALL_ASKING, UINT64_MAX);
}

void unified_call_ran(struct unified_call *c, bool is_denied, const char *denials, size_t omitted)
{
        c->question_us = clock_mono_us();
        approval_ran(c->approval, is_denied, denials, omitted);
        unified_call_wait(c, CALL_ASKING, UINT64_MAX);
}

void unified_call_looked(struct unified_call *c, const char *const *real_paths)
{
        c->question_us = clock_mono_us();
        approval_looked(c->approval, real_paths);
        unified_call_wait(c, CALL_ASKING, UINT64_MAX);
}

void unified_call_end_question(struct unified_call *c)
{
        if (c->question_us == 0)
                return;
        uint64_t us = clock_mono_us() - c->question_us;
        c->question_us = 0;
        c->asked_us += us;
        if (c->window_end_ms)
                c->window_end_ms += us / 1000;
}

void unified_call_free(struct unified_call *c)
{
        list_remove(&c->link);
        c->table->call_count--;
        if (c->session)
                exec_session_unlock(c->session);
        if (c->job)
                patch_job_release(c->job);
        if (c->look)
                patch_job_release(c->look);
        filing_request_forget(c);
        free(c->file.result);
        approval_free(c->approval);
        free(c->denials);
        buf_release(&c->output);
        buf_release(&c->text);
        buf_release(&c->structured);
        free(c->error);
        arena_release(&c->strings);
        free(c);
}

/* ---- the tools ---- */

struct tool_kind {
        /* Decodes the arguments into the call. Returns 0, or -EINVAL with a sentence for the model. */
        int (*decode)(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                      struct err *err);
        /* Takes the next step of a call, if that is possible now. Returns whether it has taken one. */
        bool (*advance)(struct unified_call *c, uint64_t now_ms);
        bool starts_process; /* the call starts a process; unified_cancel_process ends that, too */
};

static const struct tool_kind kinds[] = {
        [UNIFIED_EXEC_COMMAND] = { .decode = exec_decode, .advance = exec_advance, .starts_process = true },
        [UNIFIED_WRITE_STDIN] = { .decode = write_decode, .advance = write_advance },
        [UNIFIED_APPLY_PATCH] = { .decode = patching_decode, .advance = patching_advance },
        [UNIFIED_SHELL] = { .decode = shell_decode, .advance = shell_advance, .starts_process = true },
        [UNIFIED_READ_FILE] = { .decode = filing_decode, .advance = filing_advance },
        [UNIFIED_WRITE_FILE] = { .decode = filing_decode, .advance = filing_advance },
        [UNIFIED_LIST_DIRECTORY] = { .decode = filing_decode, .advance = filing_advance },
        [UNIFIED_VIEW_IMAGE] = { .decode = filing_decode, .advance = filing_advance },
};

static const struct tool_kind *kind_of(const struct unified_call *c)
{
        return &kinds[c->tool];
}

/* ---- a step ---- */

static void finish(struct unified_call *c)
{
        struct unified *u = c->table;
        struct unified_result result = { .error = c->error, .rpc_code = c->rpc_code };
        if (!c->error) {
                result.answer = c->answer;
                result.text = buf_slice(&c->text);
                result.output = buf_slice(&c->output);
                result.structured = buf_slice(&c->structured);
                result.image_type = c->file.image_type;
                result.image = c->file.image;
        }
        if (c->session && (c->ends_process || c->session->is_own))
                exec_session_end_tree(c->session);
        if (c->session)
                exec_session_unlock(c->session);
        list_remove(&c->link);
        u->options.on_result(u->options.arg, c->arg, &result);
        unified_call_free(c);
}

static void advance(struct unified_call *c, uint64_t now_ms)
{
        bool has_moved = true;
        while (has_moved && c->state != CALL_DONE) {
                if (c->is_cancelled) {
                        unified_call_fail(c, "cancelled");
                        return;
                }
                has_moved = c->is_patch ? patching_advance(c, now_ms) : kind_of(c)->advance(c, now_ms);
        }
}

void unified_calls_advance(struct unified *u)
{
        struct unified_call *c;
        /* A callback may begin calls, which come to the end of the list. */
        list_each (c, &u->calls, link) {
                if (u->is_paused)
                        return;
                advance(c, clock_mono_ms());
                if (c->state == CALL_DONE)
                        finish(c);
        }
}

uint64_t unified_calls_due_ms(const struct unified *u)
{
        struct unified_call *c;
        uint64_t at = UINT64_MAX;
        list_each (c, &u->calls, link)
                at = MIN(at, c->state == CALL_NEW || c->state == CALL_DONE ? 0 : c->wake_ms);
        return at;
}

/* ---- for the caller ---- */

static void decode(struct unified_call *c, struct slice arguments)
{
        _buf_ struct buf text = BUF_INIT(LIMIT_UNIFIED_LINE_BYTES);
        struct json_doc doc;
        struct json_error bad;
        struct err err = ERR_INIT;
        /* The copy has the padding that the parser needs; the arena keeps what the decoded arguments point to. */
        if (buf_append(&text, arguments) < 0) {
                unified_call_fail(c, "the arguments are too long");
                return;
        }
        char *copy = arena_alloc(&c->strings, text.n + BUF_PADDING);
        memcpy(copy, text.p, text.n);
        memset(copy + text.n, 0, BUF_PADDING);
        if (json_parse(&c->strings, slice_from(copy, text.n), &doc, &bad) < 0) {
                unified_call_fail(c, "failed to parse function arguments: %s", bad.text);
                return;
        }
        if (kind_of(c)->decode(c, &doc, json_root(&doc), &err) < 0)
                unified_call_fail(c, "%s", err.text);
}

struct unified_call *unified_begin(struct unified *u, enum unified_tool tool, struct slice arguments,
                                   const char *call_id, void *call_arg)
{
        if (u->call_count >= LIMIT_UNIFIED_CALLS)
                return NULL;
        struct unified_call *c = mem_new(struct unified_call);
        c->table = u;
        c->tool = tool;
        c->arg = call_arg;
        c->id = arena_dup(&c->strings, slice_from_str(call_id));
        c->began_us = clock_mono_us();
        c->wake_ms = UINT64_MAX;
        buf_init(&c->output, TOOL_ANSWER_TEXT_MAX);
        buf_init(&c->text, 2 * TOOL_ANSWER_TEXT_MAX);
        buf_init(&c->structured, 2 * TOOL_ANSWER_TEXT_MAX);
        list_append(&u->calls, &c->link);
        u->call_count++;
        u->is_due = true;
        decode(c, arguments);
        return c;
}

void unified_cancel(struct unified_call *c)
{
        c->is_cancelled = true;
        c->table->is_due = true;
}

void unified_cancel_process(struct unified_call *c)
{
        c->ends_process = kind_of(c)->starts_process;
        unified_cancel(c);
}

void unified_cancel_all(struct unified *u)
{
        struct unified_call *c;
        list_each (c, &u->calls, link)
                unified_cancel(c);
}

size_t unified_calls_count(const struct unified *u)
{
        return u->call_count;
}

/* patching: the tool apply_patch, and commands of exec_command that do nothing but call apply_patch. */
#include "unified/table_internal.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "hunk/shell.h"

/* ---- reading the patch ---- */

bool patching_takes(struct unified_call *c)
{
        struct shell_call call;
        struct arena *a = &c->strings;
        switch (shell_find_patch_in_script(a, slice_from_str(c->exec.cmd), &call)) {
        case SHELL_PATCH_NONE:
                return false;
        case SHELL_PATCH_NAKED:
                unified_call_fail(c, "%s", SHELL_PATCH_NAKED_TEXT);
                return true;
        case SHELL_PATCH_CALL:
                break;
        }
        const char *workdir = c->exec.workdir;
        if (call.workdir.p && (call.workdir.n == 0 || call.workdir.p[0] != '/') && workdir)
                workdir = arena_printf(a, "%s/%.*s", workdir, SLICE(call.workdir));
        else if (call.workdir.p)
                workdir = arena_dup(a, call.workdir);
        c->is_patch = true;
        c->patch = (struct patch_args){
                .input = call.patch,
                .workdir = workdir,
                .environment_id = c->exec.environment_id,
                .wish = c->exec.wish,
                .justification = c->exec.justification,
                .additional_permissions = c->exec.additional_permissions,
        };
        return true;
}

/* Reads the patch, and finds its environment: that of the arguments, else that of the patch. */
static bool on_new(struct unified_call *c)
{
        struct patch_error error;
        const char *id = c->patch.environment_id;
        if (patch_parse(&c->strings, c->patch.input, &c->parsed, &error) < 0) {
                unified_call_fail(c, "apply_patch verification failed: %s",
                                  patch_error_tool_text(&c->strings, &error));
                return true;
        }
        if (c->parsed.hunk_count == 0) {
                unified_call_fail(c, "apply_patch verification failed: No files were modified.");
                return true;
        }
        if (!id && c->parsed.environment_id.p)
                id = arena_dup(&c->strings, c->parsed.environment_id);
        c->host = host_find(c->table, id);
        if (!c->host)
                unified_call_fail(c, "unknown environment id `%s`", id);
        else
                unified_call_wait(c, CALL_CONNECTING, UINT64_MAX);
        return true;
}

/* ---- permission ---- */

static void ask_permission(struct unified_call *c)
{
        c->cwd = host_path(&c->strings, c->host, c->patch.workdir);
        if (!c->cwd) {
                unified_call_fail(c,
                                  "apply_patch failed: environment `%s` does not tell its working directory; "
                                  "give an absolute `workdir`",
                                  c->host->id);
                return;
        }
        if (c->parsed.hunk_count > LIMIT_UNIFIED_PATCH_PATHS_BYTES / 2 / (strlen(c->cwd) + 1)) {
                unified_call_fail(c, "apply_patch failed: the patch names too many files");
                return;
        }
        c->paths = patch_paths(&c->strings, &c->parsed, c->cwd);
        struct approval_action action = {
                .paths = c->paths,
                .wish = c->patch.wish,
                .justification = c->patch.justification,
                .additional = c->patch.additional_permissions,
        };
        unified_call_ask(c, action);
}

static bool on_connecting(struct unified_call *c)
{
        switch (host_want(c->host)) {
        case HOST_READY:
                ask_permission(c);
                return true;
        case HOST_FAILED:
                unified_call_fail(c, "apply_patch failed: %s", c->host->error);
                return true;
        case HOST_IDLE:
        case HOST_CONNECTING:
        case HOST_ASKING:
                break;
        }
        return false;
}

/* Begins to apply the patch, or to find out its real paths; waits while another patch is being worked on in the environment. */
static bool start(struct unified_call *c, bool is_look)
{
        enum host_state state = host_want(c->host);
        if (state == HOST_FAILED) {
                unified_call_fail(c, "apply_patch failed: %s", c->host->error);
                return true;
        }
        if (state != HOST_READY || c->host->job)
                return false;
        struct patch_job **job = is_look ? &c->look : &c->job;
        if (*job) /* an earlier look, or the run that was denied */
                patch_job_release(TAKE(*job));
        *job = is_look ? patch_job_look(c) : patch_job_start(c);
        if (*job)
                unified_call_wait(c, is_look ? CALL_LOOKING : CALL_PATCHING, UINT64_MAX);
        else
                unified_call_fail(c, "apply_patch failed: there is no thread for it");
        return true;
}

/* ---- the result ---- */

static void answer(struct unified_call *c)
{
        const struct patch_result *r = &c->job->result;
        struct slice error = r->error ? slice_trim(slice_from_str(r->error)) : S("");
        if (c->job->error[0]) {
                unified_call_fail(c, "apply_patch failed: %s", c->job->error);
                return;
        }
        if (r->exit_code != 0) {
                const char *what = r->is_denied                                     ? "denied by sandbox"
                                   : r->is_lost || r->is_applied || r->is_elsewhere ? "failed"
                                                                                    : "verification failed";
                unified_call_fail(c, "apply_patch %s: %.*s", what,
                                  (int)MIN(error.n, (size_t)LIMIT_UNIFIED_LINE_BYTES), error.p);
                return;
        }
        /* The list of the files of the patch may be longer than what an answer holds. */
        struct head_tail files;
        struct cut_output output = { 0 };
        head_tail_init(&files, SESSION_BUFFER_BYTES);
        head_tail_put(&files, slice_from_str(r->out));
        _free_ char *bytes =
                head_tail_take(&files, &output.bytes.n, &output.head_bytes, &output.omitted_bytes);
        output.bytes.p = bytes;
        head_tail_release(&files);
        c->answer = (struct tool_answer){ .wall_us = clock_mono_us() - c->began_us - c->asked_us };
        must(tool_answer_write(&c->answer, &output, OUTPUT_TOKENS, c->table->options.budget, &c->output,
                               &c->text) == 0);
        c->state = CALL_DONE;
}

static bool on_patching(struct unified_call *c)
{
        if (c->host->job == c->job)
                return false; /* the thread works */
        const struct patch_result *r = &c->job->result;
        bool is_denied = c->job->error[0] == '\0' && r->is_denied;
        size_t omitted = 0;
        if (is_denied && c->host->client) {
                free(c->denials);
                c->denials = patch_denials_json(r, c->host->client, &omitted);
        }
        unified_call_ran(c, is_denied, c->denials, omitted);
        return true;
}

static bool on_looking(struct unified_call *c)
{
        if (c->host->job == c->look)
                return false; /* the thread works */
        bool is_known = c->look->error[0] == '\0' && c->look->result.exit_code == 0;
        unified_call_looked(c, is_known ? c->look->result.real_paths : NULL);
        return true;
}

static bool follow_approval(struct unified_call *c)
{
        enum approval_state state = approval_state(c->approval);
        if (state == APPROVAL_ASKING)
                return false;
        unified_call_end_question(c);
        if (state == APPROVAL_RUN || state == APPROVAL_LOOKING)
                return start(c, state == APPROVAL_LOOKING);
        if (state == APPROVAL_REFUSED)
                unified_call_fail(c, "apply_patch failed: %s", approval_text(c->approval));
        else
                answer(c);
        return true;
}

int patching_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                    struct err *err)
{
        return args_decode_patch(&c->strings, d, arguments, &c->patch, err);
}

bool patching_advance(struct unified_call *c, UNUSED uint64_t now_ms)
{
        switch (c->state) {
        case CALL_NEW:
                return on_new(c);
        case CALL_CONNECTING:
                return on_connecting(c);
        case CALL_ASKING:
                return follow_approval(c);
        case CALL_PATCHING:
                return on_patching(c);
        case CALL_LOOKING:
                return on_looking(c);
        case CALL_STARTING:
        case CALL_QUEUED:
        case CALL_PAUSING:
        case CALL_COLLECTING:
        case CALL_REPORTING:
        case CALL_FILING:
        case CALL_DONE:
                break;
        }
        return false;
}

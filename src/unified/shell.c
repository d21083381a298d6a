/* shell: the tool shell: runs a text of Bash to its end or to a limit of time, with rules that decide about each program below it. */
#include "unified/table_internal.h"

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/limits.h"
#include "base/mem.h"
#include "wire/jsonw.h"
#include "wire/rpc.h"

#define OUTPUT_BYTES SESSION_BUFFER_BYTES /* the most output of a result: stdout and stderr together */
#define TIMED_OUT_CODE 124                /* the exit code of timeout(1) */
#define END_MS 2000                       /* how long a process that is over its time may take to end */
#define LIMIT_MOST_MS ((uint64_t)1000 * 86400 * 365)

/* ---- the command ---- */

static const char *find_bash(struct unified_call *c)
{
        const char *told = c->host->info ? c->host->info->shell_path : NULL;
        const char *slash = told ? strrchr(told, '/') : NULL;
        if (c->table->options.shell.bash)
                return c->table->options.shell.bash;
        /* What a server has told about its machine is freed with the connection. */
        return slash && strcmp(slash, "/bash") == 0 ? arena_dup(&c->strings, slice_from_str(told)) : "bash";
}

static void make_command(struct unified_call *c)
{
        const struct shell_args *args = &c->shell.args;
        const char **argv = arena_zalloc(&c->strings, 4 * sizeof(*argv));
        argv[0] = find_bash(c);
        argv[1] = args->login && !c->table->options.no_login ? "-lc" : "-c";
        argv[2] = args->command;
        c->argv = argv;
        c->cwd = host_path(&c->strings, c->host, args->workdir);
        if (c->cwd)
                unified_call_ask(c, (struct approval_action){ .argv = argv });
        else
                unified_call_refuse(
                        c, RPC_INTERNAL,
                        "workdir: must be absolute: the directory of the environment is not known");
}

/* ---- the limit of time ---- */

/* Returns how much time the run of a session has used, without the time of questions. */
static uint64_t run_us(const struct exec_session *s, uint64_t now_us)
{
        uint64_t asked = s->asked_us + (s->asking_since_us ? now_us - s->asking_since_us : 0);
        return now_us - s->started_us - MIN(asked, now_us - s->started_us);
}

/* Returns when the time of the call is over, on the clock of clock_mono_ms; UINT64_MAX: never, while a question is open. */
static uint64_t limit_ms(const struct unified_call *c, uint64_t now_ms)
{
        const struct exec_session *s = c->session;
        if (s->asking_since_us)
                return UINT64_MAX;
        uint64_t used = (c->shell.used_us + run_us(s, clock_mono_us())) / 1000,
                 limit = MIN(c->shell.args.timeout_ms, LIMIT_MOST_MS);
        return now_ms + (limit > used ? limit - used : 0);
}

/* ---- permission ---- */

static void start(struct unified_call *c)
{
        const struct unified_shell *o = &c->table->options.shell;
        struct farhand_intercept intercept = FARHAND_INTERCEPT_INIT;
        struct farhand_error error;
        if (c->session) { /* the session of the first run, which was denied */
                c->shell.used_us += run_us(c->session, clock_mono_us());
                exec_session_end_tree(c->session);
                exec_session_unlock(c->session);
        }
        intercept.rules = o->rules ? o->rules->list : NULL;
        intercept.rule_count = o->rules ? o->rules->count : 0;
        intercept.scope = "below";
        intercept.program_names = o->has_full_names ? "full" : NULL;
        const struct exec_start how = {
                .cmd = c->shell.args.command,
                .sandbox = host_sandbox(&c->strings, c->host, approval_permissions(c->approval)),
                .intercept = &intercept,
                .is_own = true,
        };
        if (!exec_session_start(c, &how, &error)) {
                unified_call_refuse(c, RPC_INTERNAL, error.text);
                return;
        }
        if (c->shell.started_us == 0)
                c->shell.started_us = c->session->started_us;
        unified_call_wait(c, CALL_STARTING, 0);
}

/* Starts the command, after a new connection if the old one was lost while a question was open. */
static bool start_when_ready(struct unified_call *c)
{
        enum host_state state = host_want(c->host);
        if (state == HOST_READY)
                start(c);
        else if (state == HOST_FAILED)
                unified_call_refuse(c, RPC_INTERNAL, c->host->error);
        return c->state != CALL_ASKING;
}

/* ---- the result ---- */

/* Appends stdout and then stderr as UTF-8. When both together are too long, stdout keeps a third at least, and stderr what stdout leaves. */
static void join(struct unified_call *c, struct buf *out)
{
        const struct exec_session *s = c->session;
        size_t first = MIN(s->streams[0].n, OUTPUT_BYTES / 3),
               second = MIN(s->streams[1].n, OUTPUT_BYTES - first);
        first = MIN(s->streams[0].n, OUTPUT_BYTES - second);
        _buf_ struct buf both = BUF_INIT(OUTPUT_BYTES), text = BUF_INIT(TOOL_ANSWER_TEXT_MAX);
        must(buf_append(&both, slice_from(s->streams[0].p, first)) == 0);
        must(buf_append(&both, slice_from(s->streams[1].p, second)) == 0);
        struct cut_output all = { .bytes = buf_slice(&both), .head_bytes = both.n };
        must(cut_render(&text, &all) == 0);
        must(cut_middle(out, buf_slice(&text), c->table->options.budget) == 0);
}

static void answer(struct unified_call *c)
{
        const struct exec_session *s = c->session;
        _buf_ struct buf output = BUF_INIT(TOOL_ANSWER_TEXT_MAX);
        struct jsonw w;
        uint64_t us = clock_mono_us() - c->shell.started_us;
        join(c, &output);
        jsonw_begin(&w, &c->structured);
        jsonw_object(&w);
        jsonw_member_i64(&w, "exit_code", c->shell.is_timed_out ? TIMED_OUT_CODE : s->exit.code);
        jsonw_member_string(&w, "output", buf_slice(&output));
        jsonw_key(&w, "duration");
        jsonw_object(&w);
        jsonw_member_u64(&w, "secs", us / 1000000);
        jsonw_member_u64(&w, "nanos", us % 1000000 * 1000);
        jsonw_object_end(&w);
        jsonw_member_bool(&w, "timed_out", c->shell.is_timed_out);
        jsonw_object_end(&w);
        must(jsonw_end(&w) == 0);
        must(buf_append(&c->text, buf_slice(&c->structured)) == 0);
        c->state = CALL_DONE;
}

/* Fails the call, because the process could not be started or was lost. */
static void fail(struct unified_call *c)
{
        const struct exec_session *s = c->session;
        if (!s->directory_errno) {
                unified_call_refuse(c, RPC_INTERNAL, s->failure);
                return;
        }
        unified_call_refuse(c, RPC_INTERNAL,
                            arena_printf(&c->strings, "%s (os error %d)", errno_text(s->directory_errno),
                                         s->directory_errno));
}

/* Does what the approval says. Returns false while a question is open. */
static bool follow_approval(struct unified_call *c)
{
        switch (approval_state(c->approval)) {
        case APPROVAL_ASKING:
        case APPROVAL_LOOKING: /* only the approval of a patch looks */
                return false;
        case APPROVAL_RUN:
                unified_call_end_question(c);
                return start_when_ready(c);
        case APPROVAL_REFUSED:
                unified_call_end_question(c);
                unified_call_fail(c, "shell failed: %s", approval_text(c->approval));
                return true;
        case APPROVAL_OVER:
                unified_call_end_question(c);
                answer(c);
                return true;
        }
        return false;
}

/* ---- the run ---- */

static void report_run(struct unified_call *c)
{
        const struct exec_session *s = c->session;
        bool is_denied = s->exit.sandbox_denied && !c->table->options.shell.keeps_denials;
        unified_call_ran(c, is_denied, s->denials, 0);
}

static bool end_run(struct unified_call *c, uint64_t now_ms)
{
        if (!c->table->options.shell.keeps_denials && exec_session_ask_denials(c->session))
                unified_call_wait(c, CALL_REPORTING, now_ms + DENIALS_MS);
        else
                report_run(c);
        return true;
}

static void time_out(struct unified_call *c, uint64_t now_ms)
{
        c->shell.is_timed_out = true;
        c->shell.end_ms = now_ms + END_MS;
        exec_session_end(c->session);
}

static bool on_running(struct unified_call *c, uint64_t now_ms)
{
        struct exec_session *s = c->session;
        bool is_over = exec_session_is_over(s, now_ms);
        if (c->shell.is_timed_out && (is_over || now_ms >= c->shell.end_ms)) {
                answer(c);
                return true;
        }
        if (exec_session_is_lost(s)) {
                fail(c);
                return true;
        }
        if (is_over)
                return end_run(c, now_ms);
        uint64_t limit = s->has_exited ? UINT64_MAX : limit_ms(c, now_ms);
        if (!c->shell.is_timed_out && limit <= now_ms) {
                time_out(c, now_ms);
                limit = UINT64_MAX;
        }
        uint64_t wake = c->shell.is_timed_out ? c->shell.end_ms : limit;
        if (s->has_exited)
                wake = MIN(wake, s->exited_ms + AFTER_EXIT_MS);
        unified_call_wait(c, CALL_COLLECTING, wake);
        return false;
}

static bool on_reporting(struct unified_call *c, uint64_t now_ms)
{
        if (c->session->is_queried && now_ms < c->wake_ms && !c->session->has_failed)
                return false;
        report_run(c);
        return true;
}

static bool on_connecting(struct unified_call *c)
{
        enum host_state state = host_want(c->host);
        if (state == HOST_READY)
                make_command(c);
        else if (state == HOST_FAILED)
                unified_call_refuse(c, RPC_INTERNAL, c->host->error);
        return c->state != CALL_CONNECTING;
}

static bool on_new(struct unified_call *c)
{
        c->host = host_find(c->table, c->shell.args.environment_id);
        if (c->host)
                unified_call_wait(c, CALL_CONNECTING, UINT64_MAX);
        else
                unified_call_refuse(c, RPC_INVALID_PARAMS,
                                    arena_printf(&c->strings, "unknown environment id `%s`",
                                                 c->shell.args.environment_id));
        return true;
}

int shell_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                 struct err *err)
{
        int r = shell_args_decode(&c->strings, d, arguments, &c->shell.args, err);
        c->rpc_code = r < 0 ? RPC_INVALID_PARAMS : 0;
        return r;
}

bool shell_advance(struct unified_call *c, uint64_t now_ms)
{
        switch (c->state) {
        case CALL_NEW:
                return on_new(c);
        case CALL_CONNECTING:
                return on_connecting(c);
        case CALL_ASKING:
                return follow_approval(c);
        case CALL_STARTING:
        case CALL_COLLECTING:
                return on_running(c, now_ms);
        case CALL_REPORTING:
                return on_reporting(c, now_ms);
        case CALL_QUEUED:
        case CALL_PAUSING:
        case CALL_PATCHING:
        case CALL_LOOKING:
        case CALL_FILING:
        case CALL_DONE:
                break;
        }
        return false;
}

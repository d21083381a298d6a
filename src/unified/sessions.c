/* sessions: the exec sessions of a table: what servers tell of the processes, the events of that, and which sessions give way to others. */
#include "unified/table_internal.h"

#include "approve/host_denial.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/random.h"
#include "unified/prune.h"

#include <errno.h>
#include <stdio.h>

#define ID_LEAST 1000
#define ID_MOST 99999
#define REFUSED_HOSTS_BYTES ((size_t)16 * 1024) /* further ones are not told */
#define TRANSCRIPT_TEXT_MAX TOOL_ANSWER_TEXT_MAX

/* The variables that a command gets beside those of the server: no colours, no pager, UTF-8. */
static const char *const variables[] = {
        "NO_COLOR=1",     "TERM=dumb",  "LANG=C.UTF-8", "LC_CTYPE=C.UTF-8",
        "LC_ALL=C.UTF-8", "COLORTERM=", "PAGER=cat",    "GIT_PAGER=cat",
        "GH_PAGER=cat",   "CODEX_CI=1", NULL,
};

/* ---- events ---- */

static struct unified_event event_of(const struct exec_session *s, enum unified_event_kind kind)
{
        return (struct unified_event){
                .kind = kind, .call_id = s->call_id, .environment_id = s->host->id, .session_id = s->id
        };
}

static void tell(const struct exec_session *s, const struct unified_event *event)
{
        const struct unified_options *o = &s->table->options;
        if (o->on_event)
                o->on_event(o->arg, event);
}

static void tell_delta(void *arg, struct slice piece)
{
        struct unified_event event = event_of(arg, UNIFIED_DELTA);
        event.text = piece;
        tell(arg, &event);
}

void exec_session_tell_interaction(struct exec_session *s, struct slice text)
{
        struct unified_event event = event_of(s, UNIFIED_INTERACTION);
        event.text = text;
        tell(s, &event);
}

static void tell_begin(struct exec_session *s)
{
        struct unified_event event = event_of(s, UNIFIED_BEGIN);
        event.argv = s->argv;
        event.cwd = s->cwd;
        event.tty = s->tty;
        s->has_begun = true;
        tell(s, &event);
}

static void tell_end(struct exec_session *s)
{
        struct unified_event event = event_of(s, UNIFIED_END);
        _buf_ struct buf text = BUF_INIT(TRANSCRIPT_TEXT_MAX);
        struct cut_output all = { 0 };
        deltas_flush(&s->deltas, tell_delta, s);
        _free_ char *bytes =
                head_tail_take(&s->transcript, &all.bytes.n, &all.head_bytes, &all.omitted_bytes);
        all.bytes.p = bytes;
        must(cut_render(&text, &all) == 0);
        event.text = buf_slice(&text);
        event.argv = s->argv;
        event.cwd = s->cwd;
        event.tty = s->tty;
        event.exit_code = s->has_exited ? s->exit.code : -1;
        event.duration_us = clock_mono_us() - s->started_us;
        event.failure = exec_session_is_lost(s) ? s->failure : NULL;
        s->has_ended = true;
        tell(s, &event);
}

/* ---- what libfarhand tells ---- */

/* Keeps the beginning of a stream. */
static void keep(struct buf *stream, struct slice bytes)
{
        must(buf_append(stream, slice_from(bytes.p, MIN(bytes.n, stream->cap - stream->n))) == 0);
}

static void on_started(UNUSED struct farhand_process *p, void *arg, UNUSED int64_t pid)
{
        struct exec_session *s = arg;
        s->has_started = true;
        tell_begin(s);
        if (s->is_ending)
                (void)farhand_process_terminate(s->process);
}

static void on_output(UNUSED struct farhand_process *p, void *arg, enum farhand_stream stream,
                      const void *bytes, size_t n)
{
        struct exec_session *s = arg;
        if (s->is_own)
                keep(&s->streams[stream == FARHAND_STDERR], slice_from(bytes, n));
        else
                head_tail_put(&s->unread, slice_from(bytes, n));
        if (s->has_ended)
                return;
        head_tail_put(&s->transcript, slice_from(bytes, n));
        deltas_feed(&s->deltas, slice_from(bytes, n), tell_delta, s);
}

static void on_gap(UNUSED struct farhand_process *p, void *arg, UNUSED uint64_t first, UNUSED uint64_t last,
                   uint64_t bytes)
{
        struct exec_session *s = arg;
        head_tail_skip(&s->unread, bytes);
        if (s->has_ended)
                return;
        head_tail_skip(&s->transcript, bytes);
        deltas_flush(&s->deltas, tell_delta, s);
}

static void on_writable(UNUSED struct farhand_process *p, void *arg)
{
        exec_session_feed(arg);
}

static void on_exited(UNUSED struct farhand_process *p, void *arg, const struct farhand_exit *exit)
{
        struct exec_session *s = arg;
        s->has_exited = true;
        s->exit = *exit;
        s->exited_ms = clock_mono_ms();
}

static void on_closed(UNUSED struct farhand_process *p, void *arg)
{
        ((struct exec_session *)arg)->is_closed = true;
}

/* Returns whether a start has failed because of the directory of the command. */
static bool error_is_of_directory(const struct farhand_error *error)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(sizeof(error->data));
        struct json_doc doc;
        struct json_error bad;
        if (buf_append(&text, slice_from_str(error->data)) < 0 ||
            json_parse(&a, buf_slice(&text), &doc, &bad) < 0)
                return false;
        const struct json *step = json_get(&doc, json_root(&doc), S("step"));
        return step && step->type == JSON_STRING && slice_eq(json_string(&a, &doc, step), S("cwd"));
}

static void on_failed(UNUSED struct farhand_process *p, void *arg, const struct farhand_error *error)
{
        struct exec_session *s = arg;
        s->has_failed = true;
        (void)snprintf(s->failure, sizeof(s->failure), "%s", error->text);
        if (error_is_of_directory(error))
                s->directory_errno = farhand_error_errno(error);
}

static void on_exec(UNUSED struct farhand_process *p, void *arg, const struct farhand_exec *exec)
{
        programs_take(arg, exec);
}

static void on_network(UNUSED struct farhand_process *p, void *arg,
                       const struct farhand_network_question *question)
{
        programs_take_host(arg, question);
}

/* Tells the model once of each host that was refused, as if the command had written it: many programs do not say why they failed. */
static void on_network_decision(struct farhand_process *p, void *arg,
                                const struct farhand_network_decision *decision)
{
        struct exec_session *s = arg;
        _arena_ struct arena a = ARENA_INIT;
        if (decision->action == FARHAND_NETWORK_ALLOW)
                return;
        const char *line = arena_printf(&a, "farhand: no connection to %s port %u: %s\n",
                                        printable_str(&a, decision->host), (unsigned)decision->port,
                                        printable_str(&a, host_denial_text(decision->reason)));
        if (memmem(s->refused_hosts.p, s->refused_hosts.n, line, strlen(line)) ||
            buf_append(&s->refused_hosts, slice_from_str(line)) < 0)
                return;
        on_output(p, s, s->tty ? FARHAND_PTY : FARHAND_STDERR, line, strlen(line));
}

static const struct farhand_process_events events = {
        .on_started = on_started,
        .on_output = on_output,
        .on_writable = on_writable,
        .on_exited = on_exited,
        .on_closed = on_closed,
        .on_failed = on_failed,
        .on_gap = on_gap,
        .on_exec = on_exec,
        .on_network = on_network,
        .on_network_decision = on_network_decision,
};

/* ---- the table ---- */

struct exec_session *exec_session_find(struct unified *u, int64_t id)
{
        struct exec_session *s;
        list_each (s, &u->sessions, link)
                if (s->is_listed && s->id == id)
                        return s;
        return NULL;
}

static int new_id(struct unified *u)
{
        uint32_t n;
        int id;
        do {
                random_bytes(&n, sizeof(n));
                id = ID_LEAST + (int)(n % (ID_MOST - ID_LEAST + 1));
        } while (exec_session_find(u, id));
        return id;
}

void exec_session_end(struct exec_session *s)
{
        s->is_ending = true;
        exec_session_unlist(s);
        if (s->process && s->has_started && !s->has_exited)
                (void)farhand_process_terminate(s->process);
}

/* Makes room in the table, if it has more than `most` sessions and one of them may go. */
static void prune(struct unified *u, size_t most)
{
        struct exec_session *list[LIMIT_UNIFIED_SESSIONS + LIMIT_UNIFIED_CALLS + 1], *s;
        struct prune_candidate candidates[ARRAY_LEN(list)];
        for (;;) {
                size_t count = 0;
                list_each (s, &u->sessions, link) {
                        if (!s->is_listed || count == ARRAY_LEN(list))
                                continue;
                        list[count] = s;
                        candidates[count++] = (struct prune_candidate){
                                .used = s->used,
                                .has_exited = s->has_exited || s->has_failed,
                                .is_locked = s->user != NULL,
                        };
                }
                size_t gone = count > most ? prune_choose(candidates, count) : PRUNE_NONE;
                if (gone == PRUNE_NONE)
                        return;
                exec_session_end(list[gone]);
        }
}

void exec_session_lock(struct exec_session *s, struct unified_call *call)
{
        s->user = call;
        s->used = ++s->table->clock;
        call->session = s;
}

void exec_session_unlock(struct exec_session *s)
{
        s->user->session = NULL;
        s->user = NULL;
        s->table->is_due = true; /* calls may wait for this session */
        /* Sessions in use are not pruned, so the table may have become too large meanwhile. */
        prune(s->table, LIMIT_UNIFIED_SESSIONS);
}

void exec_session_unlist(struct exec_session *s)
{
        s->is_listed = false;
}

void exec_session_free(struct exec_session *s)
{
        programs_release(s);
        list_remove(&s->link);
        farhand_process_free(s->process);
        head_tail_release(&s->unread);
        head_tail_release(&s->transcript);
        buf_release(&s->refused_hosts);
        buf_release(&s->streams[0]);
        buf_release(&s->streams[1]);
        buf_release(&s->input);
        free(s->denials);
        arena_release(&s->strings);
        free(s);
}

static const char *const *copy_list(struct arena *a, const char *const *list)
{
        size_t n = 0;
        while (list[n])
                n++;
        const char **copy = arena_zalloc(a, (n + 1) * sizeof(*copy));
        for (size_t i = 0; i < n; i++)
                copy[i] = arena_dup(a, slice_from_str(list[i]));
        return copy;
}

static int make_network(struct exec_session *s, struct farhand_command *command,
                        struct farhand_error *ret_error)
{
        const struct unified_options *o = &s->table->options;
        struct err err = ERR_INIT;
        if (!command->sandbox || !o->make_network)
                return 0;
        int r = o->make_network(o->network_arg, s->host->client, &s->strings, &command->network, &err);
        if (r < 0) {
                *ret_error = (struct farhand_error){ .code = r };
                (void)snprintf(ret_error->text, sizeof(ret_error->text), "%.*s",
                               (int)sizeof(ret_error->text) - 1, err.text);
        }
        return r;
}

struct exec_session *exec_session_start(struct unified_call *call, const struct exec_start *how,
                                        struct farhand_error *ret_error)
{
        struct unified *u = call->table;
        prune(u, LIMIT_UNIFIED_SESSIONS - 1);
        struct exec_session *s = mem_new(struct exec_session);
        s->table = u;
        s->host = call->host;
        s->call_id = arena_dup(&s->strings, slice_from_str(call->id));
        s->cwd = arena_dup(&s->strings, slice_from_str(call->cwd));
        s->cmd = arena_dup(&s->strings, slice_from_str(how->cmd));
        s->argv = copy_list(&s->strings, call->argv);
        s->tty = how->tty;
        s->is_sandboxed = how->sandbox != NULL;
        s->is_own = how->is_own;
        s->started_us = clock_mono_us();
        s->id = new_id(u);
        s->is_listed = !how->is_own;
        list_init(&s->programs);
        buf_init(&s->refused_hosts, REFUSED_HOSTS_BYTES);
        buf_init(&s->streams[0], SESSION_BUFFER_BYTES);
        buf_init(&s->streams[1], SESSION_BUFFER_BYTES);
        head_tail_init(&s->unread, SESSION_BUFFER_BYTES);
        head_tail_init(&s->transcript, SESSION_BUFFER_BYTES);
        buf_init(&s->input, LIMIT_UNIFIED_INPUT_BYTES);
        list_append(&u->sessions, &s->link);
        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.argv = s->argv;
        command.cwd = s->cwd;
        command.env = variables;
        command.tty = s->tty;
        command.sandbox = how->sandbox;
        command.intercept = how->intercept;
        if (make_network(s, &command, ret_error) == 0)
                s->process = farhand_start(s->host->client, &command, &events, s, ret_error);
        if (!s->process) {
                exec_session_free(s);
                return NULL;
        }
        exec_session_lock(s, call);
        return s;
}

void exec_session_feed(struct exec_session *s)
{
        while (s->process && s->input.n > 0) {
                int64_t n = farhand_process_write(s->process, s->input.p, s->input.n, NULL);
                if (n == 0)
                        return;
                buf_consume(&s->input, n < 0 ? s->input.n : (size_t)n);
        }
}

static void on_killed(UNUSED struct farhand *f, UNUSED void *arg, UNUSED const char *result,
                      UNUSED const struct farhand_error *error)
{
}

/* The library has no process any more once its output has ended, but what it has left behind may still run. */
void exec_session_end_tree(struct exec_session *s)
{
        _buf_ struct buf params = BUF_INIT(1024);
        struct jsonw w;
        exec_session_end(s);
        if (!s->process || !s->has_exited)
                return;
        jsonw_begin(&w, &params);
        jsonw_object(&w);
        jsonw_member_str(&w, "processId", farhand_process_id(s->process));
        jsonw_member_str(&w, "signal", "kill");
        jsonw_member_str(&w, "scope", "tree");
        jsonw_object_end(&w);
        if (jsonw_end(&w) == 0)
                (void)farhand_call(s->host->client, "process/signal", params.p, FARHAND_REPEAT, on_killed,
                                   NULL, NULL);
}

bool exec_session_is_over(const struct exec_session *s, uint64_t now_ms)
{
        return s->has_failed || s->is_closed || (s->has_exited && now_ms >= s->exited_ms + AFTER_EXIT_MS);
}

/* ---- a step ---- */

static bool is_end_due(const struct exec_session *s, uint64_t now_ms)
{
        if (!s->has_begun || s->has_ended)
                return false;
        return s->has_failed || s->is_closed || (s->has_exited && now_ms >= s->exited_ms + END_GRACE_MS);
}

void exec_sessions_advance(struct unified *u)
{
        struct exec_session *s;
        uint64_t now = clock_mono_ms();
        list_each (s, &u->sessions, link) {
                if (u->is_paused)
                        return;
                programs_advance(s);
                if (s->is_closed || s->has_failed)
                        programs_release(s);
                if (is_end_due(s, now))
                        tell_end(s);
                if (!s->has_begun && s->has_failed &&
                    !s->user) /* the process never began: there is nothing to report */
                        exec_session_unlist(s);
                if (!s->is_listed && !s->user && !s->is_queried &&
                    (s->has_ended || (!s->has_begun && s->has_failed)))
                        exec_session_free(s);
        }
}

uint64_t exec_sessions_due_ms(const struct unified *u)
{
        struct exec_session *s;
        uint64_t at = UINT64_MAX;
        list_each (s, &u->sessions, link)
                if (s->has_begun && !s->has_ended && s->has_exited)
                        at = MIN(at, s->exited_ms + END_GRACE_MS);
        return at;
}

void unified_end_sessions(struct unified *u)
{
        struct exec_session *s;
        list_each (s, &u->sessions, link)
                exec_session_end(s);
        u->is_due = true;
}

size_t unified_processes_count(const struct unified *u)
{
        struct exec_session *s;
        size_t n = 0;
        list_each (s, &u->sessions, link)
                n += !s->has_ended && !(s->has_failed && !s->has_begun);
        return n;
}

void unified_write_sessions(const struct unified *u, struct jsonw *w)
{
        struct exec_session *s;
        jsonw_array(w);
        list_each (s, &u->sessions, link) {
                if (!s->is_listed || !s->has_started)
                        continue;
                jsonw_object(w);
                jsonw_member_i64(w, "session_id", s->id);
                jsonw_member_str(w, "environment_id", s->host->id);
                jsonw_member_str(w, "cmd", s->cmd);
                jsonw_member_str(w, "cwd", s->cwd);
                jsonw_member_bool(w, "tty", s->tty);
                jsonw_member_bool(w, "running", !s->has_exited && !s->has_failed);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
}

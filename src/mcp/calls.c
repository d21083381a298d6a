/* calls: begins, cancels and answers calls of tools, and tells how they go on. */
#include "mcp/calls.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/mem.h"
#include "mcp/reply.h"
#include "mcp/tool_result.h"
#include "unified/answer_json.h"

#include <inttypes.h>
#include <stdio.h>

#define PROGRESS_MS 1000    /* how often a client is told how a call goes on */
#define LAST_LINE_BYTES 200 /* how much of the last line of output is told */

struct call {
        struct list link; /* calls::list */
        struct calls *owner;
        struct arena strings;
        struct call_wish wish;
        uint64_t serial;            /* names the call in events */
        struct unified_call *begun; /* NULL: the call is held */
        bool is_cancelled;
        int64_t session_id; /* whose output is the progress; 0: not known yet */
        uint64_t began_ms, told_ms;
        char last_line[LAST_LINE_BYTES];
        size_t last_line_bytes;
};

struct calls {
        struct outbox *outbox;
        struct unified *table;
        struct list list; /* call::link, in the order in which they came */
        size_t count;
        uint64_t serial;
        bool is_held;
};

static bool is_same_id(const struct rpc_id *a, const struct rpc_id *b)
{
        if (a->is_string != b->is_string)
                return false;
        return a->is_string ? slice_eq(a->string, b->string) : a->number == b->number;
}

static struct call *find(const struct calls *c, const struct rpc_id *id)
{
        struct call *call;
        list_each (call, &c->list, link)
                if (!call->is_cancelled && is_same_id(&call->wish.id, id))
                        return call;
        return NULL;
}

bool calls_know(const struct calls *c, const struct rpc_id *id)
{
        return find(c, id) != NULL;
}

static void call_free(struct call *call)
{
        list_remove(&call->link);
        call->owner->count--;
        arena_release(&call->strings);
        free(call);
}

static void refuse(struct calls *c, const struct call_wish *wish, const char *text)
{
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        reply_error(&out, &wish->id, RPC_INTERNAL, slice_from_str(text));
        outbox_answer(c->outbox, wish->batch, &out);
}

/* ---- what the table tells ---- */

static void on_result(UNUSED void *arg, void *call_arg, const struct unified_result *result)
{
        struct call *call = call_arg;
        struct calls *c = call->owner;
        struct batch *batch = call->wish.batch;
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        if (!call->is_cancelled) {
                if (result->error && result->rpc_code)
                        reply_error(&out, &call->wish.id, result->rpc_code, slice_from_str(result->error));
                else
                        tool_result_write(&out, &call->wish.id, call->wish.has_structured, result);
                outbox_answer(c->outbox, batch, &out);
        } else {
                outbox_drop(c->outbox, batch);
        }
        call_free(call);
}

/* Keeps the last line of what a process has written that is not empty. */
static void note_output(struct call *call, struct slice text)
{
        while (text.n > 0 && (text.p[text.n - 1] == '\n' || text.p[text.n - 1] == '\r'))
                text.n--;
        const char *before = text.n > 0 ? memrchr(text.p, '\n', text.n) : NULL;
        struct slice line = before ? slice_from(before + 1, text.n - (size_t)(before + 1 - text.p)) : text;
        if (line.n == 0)
                return;
        call->last_line_bytes = MIN(line.n, (size_t)LAST_LINE_BYTES);
        memcpy(call->last_line, line.p, call->last_line_bytes);
}

static void on_event(void *arg, const struct unified_event *event)
{
        struct calls *c = arg;
        struct call *call;
        if (event->kind != UNIFIED_BEGIN && event->kind != UNIFIED_DELTA)
                return;
        list_each (call, &c->list, link) {
                char serial[24];
                (void)snprintf(serial, sizeof(serial), "%" PRIu64, call->serial);
                if (event->kind == UNIFIED_BEGIN && strcmp(event->call_id, serial) == 0)
                        call->session_id = event->session_id;
                else if (event->kind == UNIFIED_DELTA && call->session_id == event->session_id)
                        note_output(call, event->text);
        }
}

void calls_prepare(struct calls *c, struct unified_options *options)
{
        options->on_result = on_result;
        options->on_event = on_event;
        options->arg = c;
}

/* ---- what the client asks for ---- */

static void begin(struct call *call)
{
        char serial[24];
        struct calls *c = call->owner;
        (void)snprintf(serial, sizeof(serial), "%" PRIu64, call->serial);
        call->begun = unified_begin(c->table, call->wish.tool, call->wish.arguments, serial, call);
        if (call->begun)
                return;
        refuse(c, &call->wish, "too many calls are under way");
        call_free(call);
}

static struct slice copy(struct arena *a, struct slice s)
{
        return slice_from(arena_dup(a, s), s.n);
}

void calls_begin(struct calls *c, const struct call_wish *wish)
{
        if (c->count >= LIMIT_UNIFIED_CALLS) {
                refuse(c, wish, "too many calls are under way");
                return;
        }
        struct call *call = mem_new(struct call);
        call->owner = c;
        call->wish = *wish;
        if (wish->id.is_string)
                call->wish.id.string = copy(&call->strings, wish->id.string);
        call->wish.arguments = copy(&call->strings, wish->arguments);
        call->wish.progress_token = copy(&call->strings, wish->progress_token);
        call->serial = ++c->serial;
        call->session_id = wish->session_id;
        call->began_ms = call->told_ms = clock_mono_ms();
        list_append(&c->list, &call->link);
        c->count++;
        if (!c->is_held)
                begin(call);
}

/* Ends a call that was never given to the table. */
static void drop_held(struct call *call)
{
        outbox_drop(call->owner->outbox, call->wish.batch);
        call_free(call);
}

void calls_cancel(struct calls *c, const struct rpc_id *id)
{
        struct call *call = find(c, id);
        if (!call)
                return;
        call->is_cancelled = true;
        if (call->begun)
                unified_cancel_process(call->begun);
        else
                drop_held(call);
}

void calls_hold(struct calls *c, bool is_held)
{
        struct call *call;
        c->is_held = is_held;
        if (is_held)
                return;
        list_each (call, &c->list, link)
                if (!call->begun)
                        begin(call);
}

void calls_forget_held(struct calls *c)
{
        struct call *call;
        list_each (call, &c->list, link)
                if (!call->begun)
                        drop_held(call);
}

uint64_t calls_route(const struct calls *c, const char *call_id)
{
        struct call *call;
        list_each (call, &c->list, link) {
                char serial[24];
                (void)snprintf(serial, sizeof(serial), "%" PRIu64, call->serial);
                if (call_id && strcmp(call_id, serial) == 0)
                        return batch_route(call->wish.batch);
        }
        return 0;
}

/* ---- progress ---- */

static uint64_t progress_at(const struct call *call)
{
        bool is_wanted = call->wish.progress_token.n > 0 && !call->is_cancelled;
        return is_wanted ? call->told_ms + PROGRESS_MS : UINT64_MAX;
}

/* The progress of a call is how many seconds it has taken, because nobody knows how many it will take. */
static void tell_progress(struct call *call, uint64_t now_ms)
{
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        struct jsonw w;
        call->told_ms = now_ms;
        reply_notification_begin(&w, &out, "notifications/progress");
        jsonw_object(&w);
        jsonw_key(&w, "progressToken");
        jsonw_raw(&w, call->wish.progress_token);
        answer_json_seconds(&w, "progress", (now_ms - call->began_ms) * 1000);
        if (call->last_line_bytes > 0)
                jsonw_member_string(&w, "message", slice_from(call->last_line, call->last_line_bytes));
        jsonw_object_end(&w);
        reply_end(&w);
        outbox_send(call->owner->outbox, batch_route(call->wish.batch), &out);
}

void calls_on_turn(struct calls *c, uint64_t now_ms)
{
        struct call *call;
        list_each (call, &c->list, link)
                if (progress_at(call) <= now_ms)
                        tell_progress(call, now_ms);
}

uint64_t calls_due_ms(const struct calls *c)
{
        struct call *call;
        uint64_t at = UINT64_MAX;
        list_each (call, &c->list, link)
                at = MIN(at, progress_at(call));
        return at;
}

/* ---- the object ---- */

struct calls *calls_new(struct outbox *outbox)
{
        struct calls *c = mem_new(struct calls);
        c->outbox = outbox;
        list_init(&c->list);
        return c;
}

void calls_use(struct calls *c, struct unified *table)
{
        c->table = table;
}

void calls_free(struct calls *c)
{
        if (!c)
                return;
        while (!list_is_empty(&c->list))
                drop_held(list_first(&c->list, struct call, link));
        free(c);
}

/* conversation: finds out what messages ask for, and does it. */
#include "mcp/conversation.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "mcp/calls.h"
#include "mcp/reply.h"
#include "mcp/roots.h"
#include "mcp/sandbox_state.h"
#include "mcp/tools.h"
#include "mcp/version.h"

#define UPDATE_SANDBOX "codex/sandbox-state/update"
#define PARSE_ERROR (-32700)
#define SHOWN_BYTES 200 /* how much of a name an error repeats */
#define BAD_BATCH "a batch must have 1 to 64 messages, and be part of the protocol version"
static_assert(LIMIT_MCP_BATCH == 64, "BAD_BATCH says it");

struct conversation {
        struct conversation_options options;
        struct unified *table;
        struct approvals *approvals;
        struct calls *calls;
        struct questions *questions;
        const struct mcp_version *version; /* NULL: the client has not initialized */
        bool has_roots;                    /* the client can tell its roots */
        uint64_t roots_id;                 /* of the request for roots that is open; 0: none is */
        uint64_t roots_end_ms;             /* until then calls wait for its answer */
        bool were_roots_asked, are_roots_stale;
        bool has_ended;
};

/* A request, while it is looked at. */
struct request {
        struct arena *a;
        struct rpc_message m;
        struct batch *batch;
};

/* ---- answers ---- */

static void refuse(struct conversation *c, const struct rpc_id *id, struct batch *batch, int code,
                   const char *fmt, ...) PRINTF_LIKE(5, 6);
static void refuse(struct conversation *c, const struct rpc_id *id, struct batch *batch, int code,
                   const char *fmt, ...)
{
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        char text[SHOWN_BYTES + 256];
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        reply_error(&out, id, code, slice_from_str(text));
        outbox_answer(&c->options.outbox, batch, &out);
}

static void refuse_request(struct conversation *c, const struct request *r, int code, const char *text)
{
        refuse(c, &r->m.id, r->batch, code, "%s", text);
}

static void answer_empty(struct conversation *c, const struct request *r)
{
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        struct jsonw w;
        reply_result_begin(&w, &out, &r->m.id);
        jsonw_object(&w);
        jsonw_object_end(&w);
        reply_end(&w);
        outbox_answer(&c->options.outbox, r->batch, &out);
}

/* ---- roots ---- */

static void ask_for_roots(struct conversation *c, uint64_t route)
{
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        struct jsonw w;
        c->were_roots_asked = true;
        c->are_roots_stale = false;
        c->roots_id = ++c->options.outbox.last_id;
        c->roots_end_ms = clock_mono_ms() + LIMIT_MCP_ROOTS_MS;
        calls_hold(c->calls, true);
        reply_request_begin(&w, &out, c->roots_id, "roots/list");
        jsonw_object(&w);
        jsonw_object_end(&w);
        reply_end(&w);
        outbox_send(&c->options.outbox, route, &out);
}

/* Asks for the roots, unless the client has none or was asked before. */
static void want_roots(struct conversation *c, uint64_t route)
{
        if (c->has_roots && !c->were_roots_asked)
                ask_for_roots(c, route);
}

/* Ends the wait for roots: asks again when they have changed meanwhile; otherwise the calls go on. */
static void end_roots(struct conversation *c)
{
        c->roots_id = 0;
        if (c->are_roots_stale && c->has_roots)
                ask_for_roots(c, 0);
        else
                calls_hold(c->calls, false);
}

static void on_roots(struct conversation *c, const struct request *r)
{
        const char *const *roots =
                r->m.kind == RPC_RESPONSE ? roots_read(r->a, &r->m.doc, r->m.result) : NULL;
        if (roots && c->has_roots)
                unified_set_workspace(c->table, roots);
        end_roots(c);
}

static void on_roots_changed(struct conversation *c)
{
        c->are_roots_stale = true;
        if (c->has_roots && c->roots_id == 0)
                ask_for_roots(c, 0);
}

/* ---- the handshake ---- */

static void initialize(struct conversation *c, const struct request *r)
{
        const struct json_doc *d = &r->m.doc;
        const struct json *version = json_get(d, r->m.params, S("protocolVersion")),
                          *can = json_get(d, r->m.params, S("capabilities"));
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        struct jsonw w;
        if (c->version || batch_is_array(r->batch)) {
                refuse_request(c, r, RPC_INVALID_REQUEST,
                               batch_is_array(r->batch) ? "initialize must not be in a batch"
                                                        : "the client has initialized already");
                return;
        }
        if (!version || version->type != JSON_STRING) {
                refuse_request(c, r, RPC_INVALID_PARAMS, "`protocolVersion` must be a string");
                return;
        }
        c->version =
                mcp_version_choose(c->options.is_reference ? S("2025-06-18") : json_string(r->a, d, version));
        const struct json *roots = json_get(d, can, S("roots"));
        c->has_roots = c->options.asks_for_roots && roots && roots->type == JSON_OBJECT;
        questions_meet(c->questions, d, can);
        reply_result_begin(&w, &out, &r->m.id);
        jsonw_object(&w);
        jsonw_member_str(&w, "protocolVersion", c->version->name);
        jsonw_key(&w, "capabilities");
        jsonw_raw(&w, S("{\"experimental\":{\"codex/sandbox-state\":{\"version\":\"1.0.0\"}},\"tools\":{}}"));
        jsonw_key(&w, "serverInfo");
        jsonw_object(&w);
        jsonw_member_str(&w, "name", "farhand");
        jsonw_member_str(&w, "version", FARHAND_VERSION);
        jsonw_object_end(&w);
        jsonw_member_str(
                &w, "instructions",
                c->options.is_reference
                        ? "It has one tool, which runs a shell command and returns what it has written."
                        : "Runs shell commands, long ones as sessions, applies patches, reads and writes "
                          "files, in a sandbox: the workspace alone may be written, unless more is allowed.");
        jsonw_object_end(&w);
        reply_end(&w);
        outbox_answer(&c->options.outbox, r->batch, &out);
}

/* ---- tools ---- */

/* Returns whether a call may wish for more permissions than it has. */
static bool can_wish(const struct conversation *c)
{
        return !c->options.never_asks &&
               (questions_can_ask(c->questions) || c->options.questions.unasked != APPROVAL_NO);
}

static void list_tools(struct conversation *c, const struct request *r)
{
        struct tools_offer offer = {
                .version = c->version,
                .environments = c->options.environments,
                .is_read_only = c->options.is_read_only,
                .can_wish = can_wish(c),
                .is_reference = c->options.is_reference,
        };
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        struct jsonw w;
        if (json_get(&r->m.doc, r->m.params, S("cursor"))) {
                refuse_request(c, r, RPC_INVALID_PARAMS, "there is no page of this cursor");
                return;
        }
        reply_result_begin(&w, &out, &r->m.id);
        jsonw_object(&w);
        jsonw_key(&w, "tools");
        tools_write(&w, &offer);
        jsonw_object_end(&w);
        reply_end(&w);
        outbox_answer(&c->options.outbox, r->batch, &out);
}

static struct slice progress_token(const struct json_doc *d, const struct json *params)
{
        const struct json *token = json_get(d, json_get(d, params, S("_meta")), S("progressToken"));
        if (!token || (token->type != JSON_STRING && token->type != JSON_NUMBER) ||
            token->len > LIMIT_ID_BYTES)
                return S("");
        struct slice raw = json_raw(d, token);
        return token->type == JSON_STRING ? slice_from(raw.p - 1, raw.n + 2) : raw; /* with its quotes */
}

static void call_tool(struct conversation *c, const struct request *r)
{
        const struct json_doc *d = &r->m.doc;
        const struct json *name = json_get(d, r->m.params, S("name")),
                          *arguments = json_get(d, r->m.params, S("arguments"));
        struct call_wish wish = { .id = r->m.id,
                                  .batch = r->batch,
                                  .arguments = S("{}"),
                                  .progress_token = progress_token(d, r->m.params),
                                  .has_structured = c->version->has_structured };
        if (!name || name->type != JSON_STRING) {
                refuse_request(c, r, RPC_INVALID_PARAMS, "`name` must be a string");
                return;
        }
        if (arguments && arguments->type != JSON_OBJECT && arguments->type != JSON_NULL) {
                refuse_request(c, r, RPC_INVALID_PARAMS, "`arguments` must be an object");
                return;
        }
        if (!unified_tool_find(json_string(r->a, d, name), &wish.tool) ||
            (c->options.is_reference && wish.tool != UNIFIED_SHELL)) {
                refuse_request(c, r, RPC_INVALID_PARAMS, "tool not found");
                return;
        }
        if (calls_know(c->calls, &r->m.id)) {
                refuse_request(c, r, RPC_INVALID_REQUEST, "a request with this id is under way");
                return;
        }
        const struct json *session = json_get(d, arguments, S("session_id"));
        if (wish.tool == UNIFIED_WRITE_STDIN && session && json_i64(d, session, &wish.session_id) < 0)
                wish.session_id = 0;
        if (arguments && arguments->type == JSON_OBJECT)
                wish.arguments = json_raw(d, arguments);
        want_roots(c, batch_route(r->batch));
        calls_begin(c->calls, &wish);
}

/* ---- the sandbox ---- */

/* From now on the client says what the profile and the workspace are, and not its roots. */
static void update_sandbox(struct conversation *c, const struct request *r)
{
        struct sandbox_state state;
        struct err err = ERR_INIT;
        _buf_ struct buf out = BUF_INIT(MCP_MESSAGE_MAX);
        if (!r->m.params || r->m.params->type == JSON_NULL) {
                refuse_request(c, r, RPC_INVALID_PARAMS, "missing params for sandbox state request");
                return;
        }
        if (sandbox_state_read(r->a, &r->m.doc, r->m.params, &state) &&
            approvals_use_profile(c->approvals, state.profile, &err) == 0) {
                unified_set_workspace(c->table, state.roots);
                c->has_roots = false;
                answer_empty(c, r);
                return;
        }
        reply_error_data(&out, &r->m.id, RPC_INVALID_PARAMS, S("failed to deserialize sandbox state"),
                         json_raw(&r->m.doc, r->m.params));
        outbox_answer(&c->options.outbox, r->batch, &out);
}

/* ---- one message ---- */

static void refuse_method(struct conversation *c, const struct request *r)
{
        struct slice method = r->m.method;
        if (c->options.is_reference) /* it says which method there is */
                refuse_request(c, r, RPC_METHOD_NOT_FOUND, UPDATE_SANDBOX);
        else
                refuse(c, &r->m.id, r->batch, RPC_METHOD_NOT_FOUND, "unknown method `%.*s`",
                       (int)MIN(method.n, (size_t)SHOWN_BYTES), method.p);
}

static void on_request(struct conversation *c, const struct request *r)
{
        struct slice method = r->m.method;
        if (slice_eq(method, S("ping")))
                answer_empty(c, r);
        else if (slice_eq(method, S("initialize")))
                initialize(c, r);
        else if (!c->version)
                refuse_request(c, r, RPC_INVALID_REQUEST, "the client has not initialized");
        else if (slice_eq(method, S("tools/list")))
                list_tools(c, r);
        else if (slice_eq(method, S("tools/call")))
                call_tool(c, r);
        else if (slice_eq(method, S(UPDATE_SANDBOX)))
                update_sandbox(c, r);
        else
                refuse_method(c, r);
}

static void on_cancelled(struct conversation *c, const struct request *r)
{
        const struct json *v = json_get(&r->m.doc, r->m.params, S("requestId"));
        struct rpc_id id = { 0 };
        if (v && v->type == JSON_STRING)
                id = (struct rpc_id){ .is_string = true, .string = json_string(r->a, &r->m.doc, v) };
        else if (!v || json_i64(&r->m.doc, v, &id.number) < 0)
                return;
        calls_cancel(c->calls, &id);
}

static void on_notification(struct conversation *c, const struct request *r)
{
        if (!c->version)
                return;
        if (slice_eq(r->m.method, S("notifications/initialized")))
                want_roots(c, 0);
        else if (slice_eq(r->m.method, S("notifications/cancelled")))
                on_cancelled(c, r);
        else if (slice_eq(r->m.method, S("notifications/roots/list_changed")))
                on_roots_changed(c);
}

static void on_response(struct conversation *c, const struct request *r)
{
        if (questions_take(c->questions, r->a, &r->m))
                return;
        if (c->roots_id > 0 && !r->m.id.is_string && r->m.id.number == (int64_t)c->roots_id)
                on_roots(c, r);
}

/* Answers a text that is no message. A text that is no JSON has an error code of its own. */
static void refuse_text(struct conversation *c, struct arena *a, struct slice text, struct batch *batch,
                        const char *why)
{
        struct json_doc doc;
        struct json_error bad;
        batch_expect(batch);
        if (!batch_is_array(batch))
                batch_refuse(batch);
        if (json_parse(a, text, &doc, &bad) < 0)
                refuse(c, NULL, batch, PARSE_ERROR, "not JSON: %s", bad.text);
        else
                refuse(c, NULL, batch, RPC_INVALID_REQUEST, "not a message: %s", why);
}

static void take_one(struct conversation *c, struct arena *a, struct slice text, struct batch *batch)
{
        struct request r = { .a = a, .batch = batch };
        struct json_error bad;
        if (rpc_parse(a, text, &r.m, &bad) < 0) {
                refuse_text(c, a, text, batch, bad.text);
                return;
        }
        switch (r.m.kind) {
        case RPC_REQUEST:
                batch_expect(batch);
                on_request(c, &r);
                break;
        case RPC_NOTIFICATION:
                on_notification(c, &r);
                break;
        case RPC_RESPONSE:
        case RPC_ERROR:
                on_response(c, &r);
                break;
        }
}

/* ---- batches ---- */

/* Returns whether the text is a list of messages that this client may send. */
static bool is_good_batch(const struct conversation *c, struct arena *a, struct slice text,
                          struct json_doc *ret)
{
        struct json_error bad;
        if (!c->version || !c->version->has_batches || json_parse(a, text, ret, &bad) < 0)
                return false;
        size_t count = json_count(ret, json_root(ret));
        return count > 0 && count <= LIMIT_MCP_BATCH;
}

static void take_batch(struct conversation *c, struct arena *a, const struct json_doc *d, struct batch *batch)
{
        json_each (item, d, json_root(d)) {
                struct slice raw = json_raw(d, item);
                if (item->type == JSON_STRING) /* with its quotes */
                        raw = slice_from(raw.p - 1, raw.n + 2);
                take_one(c, a, raw, batch);
        }
}

void conversation_take(struct conversation *c, uint64_t route, struct slice text)
{
        _arena_ struct arena a = ARENA_INIT;
        struct json_doc doc;
        text = slice_trim(text);
        bool is_array = text.n > 0 && text.p[0] == '[',
             is_good = is_array && is_good_batch(c, &a, text, &doc);
        struct batch *batch = batch_new(route, is_good);
        if (is_good)
                take_batch(c, &a, &doc, batch);
        else if (is_array)
                refuse_text(c, &a, text, batch, BAD_BATCH);
        else
                take_one(c, &a, text, batch);
        batch_close(batch, &c->options.outbox);
}

void conversation_refuse_long(struct conversation *c)
{
        struct batch *batch = batch_new(0, false);
        batch_expect(batch);
        batch_refuse(batch);
        refuse(c, NULL, batch, RPC_INVALID_REQUEST, "the message is longer than %d bytes",
               (int)LIMIT_UNIFIED_LINE_BYTES);
        batch_close(batch, &c->options.outbox);
}

/* ---- time ---- */

void conversation_on_turn(struct conversation *c, uint64_t now_ms)
{
        if (c->roots_id > 0 && now_ms >= c->roots_end_ms)
                end_roots(c);
        calls_on_turn(c->calls, now_ms);
}

uint64_t conversation_due_ms(const struct conversation *c)
{
        uint64_t at = c->roots_id > 0 ? c->roots_end_ms : UINT64_MAX;
        return c->has_ended ? UINT64_MAX : MIN(at, calls_due_ms(c->calls));
}

void conversation_end(struct conversation *c)
{
        c->has_ended = true;
        c->has_roots = false;
        c->roots_id = 0;
        calls_forget_held(c->calls);
}

/* ---- the object ---- */

struct conversation *conversation_new(const struct conversation_options *options)
{
        struct conversation *c = mem_new(struct conversation);
        c->options = *options;
        c->calls = calls_new(&c->options.outbox);
        c->questions = questions_new(&c->options.outbox, &options->questions);
        return c;
}

void conversation_free(struct conversation *c)
{
        if (!c)
                return;
        calls_free(c->calls);
        questions_free(c->questions);
        free(c);
}

void conversation_prepare(struct conversation *c, struct unified_options *options,
                          struct approvals_asker *asker)
{
        calls_prepare(c->calls, options);
        *asker = questions_asker(c->questions);
}

void conversation_use(struct conversation *c, struct unified *table, struct approvals *approvals)
{
        c->table = table;
        c->approvals = approvals;
        calls_use(c->calls, table);
        questions_use(c->questions, approvals, c->calls);
}
